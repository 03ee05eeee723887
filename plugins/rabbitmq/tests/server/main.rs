//! The plugin against a real RabbitMQ. One file a behaviour; `rig` is what they share.

mod rig;

mod channels;
mod conformance;
mod connecting;
mod limits;
mod private;
mod returns;
mod silence;
