//! What the ways to fail mean.

use std::io;

use outrider_broker::{Cause, ErrorClass, Outcome};

/// A write failed midway: some lines may be out.
pub(crate) fn failed_write(error: &io::Error) -> Outcome {
    let class = match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ErrorClass::Unreachable,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorClass::Unavailable,
        _ => ErrorClass::Other,
    };
    Outcome::Unknown(Cause::broker(class, format!("could not write to the output: {error}")))
}

/// Writing had begun and did not end in time.
pub(crate) fn stuck() -> Outcome {
    Outcome::Unknown(Cause::broker(
        ErrorClass::Timeout,
        "the output took no lines before the deadline; is it read?",
    ))
}

/// Still in the queue at the deadline, and taken out of it.
pub(crate) fn too_late() -> Outcome {
    Outcome::NotSent(Cause::broker(ErrorClass::Timeout, "the deadline passed before the hand-over"))
}

pub(crate) fn closed() -> Cause {
    Cause::broker(ErrorClass::Local, "the connection was closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_writes() {
        for (kind, class) in [
            (io::ErrorKind::BrokenPipe, ErrorClass::Unreachable),
            (io::ErrorKind::ConnectionReset, ErrorClass::Unreachable),
            (io::ErrorKind::StorageFull, ErrorClass::Unavailable),
            (io::ErrorKind::QuotaExceeded, ErrorClass::Unavailable),
            (io::ErrorKind::PermissionDenied, ErrorClass::Other),
            (io::ErrorKind::WriteZero, ErrorClass::Other),
        ] {
            let outcome = failed_write(&kind.into());
            let Outcome::Unknown(cause) = outcome else { panic!("{kind:?}: some lines may be out") };
            assert_eq!(cause.class, class, "{kind:?}");
        }
    }
}
