//! A configured broker, and opening a connection to it: bounded in time, with the true reason when it fails.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{AsyncTcpStream, Channel, ConnectionProperties};
use outrider_broker::{Broker, Cause, ConnectError, ConnectOptions, Connection, ErrorClass, Facts, Fault};
use tokio::time::{timeout, timeout_at};

use crate::link::{Link, Suspects};
use crate::params::{self, Settings};
use crate::socket::{KillOnDrop, Socket};
use crate::{classify, pool};

#[derive(Debug)]
pub(crate) struct RabbitMq {
    settings: Arc<Settings>,
    suspects: Arc<Suspects>,
}

impl RabbitMq {
    pub(crate) fn new(settings: Settings) -> Self {
        RabbitMq { settings: Arc::new(settings), suspects: Arc::default() }
    }

    /// Opens the connection and a first channel.
    async fn open(
        &self,
        options: &ConnectOptions,
        socket: &Arc<Socket>,
    ) -> lapin::Result<(lapin::Connection, Channel)> {
        let uri = self.settings.uri.clone();
        let properties = ConnectionProperties::default()
            .with_connection_name(options.client_name.as_str().into())
            .with_client_property("product".into(), "outrider".into());
        let (settings, socket, limit) = (Arc::clone(&self.settings), Arc::clone(socket), options.timeout);
        let runtime = lapin::runtime::default_runtime()?;
        let reactor = runtime.clone();
        // Runs on a thread of the library's that a dropped future does not stop: bounded by itself.
        let stream = async move |uri: AMQPUri, _| {
            let connecting = async {
                let authority = (uri.authority.host.as_str(), uri.authority.port);
                let addresses: Vec<_> = tokio::net::lookup_host(authority).await?.collect();
                let stream = AsyncTcpStream::connect(&reactor, addresses).await?;
                if let AsyncTcpStream::Plain(plain) = &stream {
                    socket.attach(plain.get_ref())?;
                }
                match uri.scheme {
                    AMQPScheme::AMQP => Ok(stream),
                    AMQPScheme::AMQPS => stream.into_tls(&uri.authority.host, settings.tls().as_ref()).await,
                }
            };
            let connected = timeout(limit, connecting).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
            connected.map_err(lapin::Error::from)
        };
        let connection = lapin::Connection::connector(uri, runtime, stream, properties).await?;
        let channel = pool::open(&connection).await?;
        Ok((connection, channel))
    }

    fn timed_out(&self, options: &ConnectOptions, reached: bool) -> Cause {
        let (server, limit) = (self.settings.server(), options.timeout);
        match reached {
            true => Cause::broker(
                ErrorClass::Timeout,
                format!(
                    "`{server}` took the connection and did not complete the AMQP handshake within {limit:?}: check the \
                     port, and whether it wants `amqps://`"
                ),
            ),
            false => {
                Cause::broker(ErrorClass::Unreachable, format!("no answer from `{server}` within {limit:?}"))
            }
        }
    }
}

#[async_trait]
impl Broker for RabbitMq {
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        params::destination(to)
    }

    /// The client bounds batches, not messages, and the broker remembers no ids.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    async fn connect(&self, options: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        // Another part of the process may have chosen a provider; either serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let until = Instant::now() + options.timeout;
        let socket = Arc::new(Socket::default());
        let guard = KillOnDrop::new(&socket);
        let (connection, channel) = match timeout_at(until.into(), self.open(&options, &socket)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                let user = &self.settings.uri.authority.userinfo.username;
                return Err(ConnectError(classify::connect(&error, &self.settings.server(), user)));
            }
            Err(_) => return Err(ConnectError(self.timed_out(&options, socket.is_open()))),
        };
        guard.disarm();
        let (settings, suspects) = (Arc::clone(&self.settings), Arc::clone(&self.suspects));
        Ok(Arc::new(Link::new(settings, suspects, connection, socket, channel, options.publish_deadline)))
    }
}
