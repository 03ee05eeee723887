//! Connecting, and the sign of life that a probe asks for.
//!
//! A connection counts once JetStream has answered on it: a server without it takes messages and stores
//! none. Must not wait without a bound, and must not report a symptom (a timeout) where the server named the
//! cause (credentials, permissions).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, Request, rustls};
use outrider_broker::{Cause, ConnectOptions, ErrorClass};
use tokio::time::{sleep_until, timeout_at};

use crate::classify;
use crate::life::{Denials, Home, Life, NO_RECONNECT};
use crate::params::{Auth, Settings};

/// How often a quiet connection is asked for a sign of life. The client gives up at the third ping without an
/// answer, so a server that vanished is noticed within 20 s.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Messages between the publisher and the client's task. They count as handed over, so when the connection
/// breaks their outcome is unknown: few are better than many, and fewer than this cost throughput.
const CLIENT_QUEUE: usize = 128;

/// A live connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) home: Home,
    /// Acknowledgements and refusals that came from JetStream. Only ever compared with an earlier reading.
    pub(crate) answers: AtomicU64,
    /// Set by `close`: nothing is handed over any more.
    pub(crate) closing: AtomicBool,
    /// Subject that tells about the account.
    info_subject: String,
}

impl Link {
    /// Connects and asks JetStream for an answer, in at most `options.timeout`.
    pub(crate) async fn open(settings: &Settings, options: &ConnectOptions) -> Result<Link, Cause> {
        let deadline = Instant::now() + options.timeout;
        let home = Home::start().await.map_err(|error| {
            Cause::broker(ErrorClass::ClientFatal, format!("no thread for the client: {error}"))
        })?;
        let connecting = connect(settings.clone(), options.clone(), Arc::clone(&home.life));
        let connected = timeout_at(deadline.into(), home.runtime().spawn(connecting)).await;
        let (client, jetstream) = match connected {
            Ok(Ok(connected)) => {
                connected.map_err(|error| classify::connect(&error, &settings.addresses()))?
            }
            Ok(Err(panic)) => {
                let text = format!("the client failed while it connected: {panic}");
                return Err(home
                    .life
                    .cause()
                    .unwrap_or_else(|| Cause::broker(ErrorClass::ClientFatal, text)));
            }
            Err(_) => {
                let text = format!("no answer from `{}` within {:?}", settings.addresses(), options.timeout);
                return Err(Cause::broker(ErrorClass::Timeout, text));
            }
        };
        let link = Link {
            client,
            jetstream,
            home,
            answers: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            info_subject: format!("{}.INFO", settings.api_prefix),
        };
        link.ask(deadline).await?;
        Ok(link)
    }

    pub(crate) fn life(&self) -> &Life {
        &self.home.life
    }

    /// Asks JetStream about the account. Credentials that may not ask get an answer too: that they may not. It
    /// shows that the server is there, and publishing may be all that they are for.
    pub(crate) async fn ask(&self, deadline: Instant) -> Result<(), Cause> {
        if let Some(cause) = self.life().cause() {
            return Err(cause);
        }
        let mut denials = self.life().denials();
        let asking = self.client.send_request(self.info_subject.clone(), Request::new().timeout(None));
        let answer = tokio::select! {
            biased;
            reply = asking => classify::account(reply, &self.info_subject),
            () = denied(&mut denials, &self.info_subject) => Ok(()),
            () = sleep_until(deadline.into()) => Err(classify::silent(&self.info_subject)),
        };
        // What ended the connection explains more than that the question had no answer.
        answer.map_err(|cause| self.life().cause().unwrap_or(cause))
    }
}

/// Waits until the server says that `subject` may not be published to. Cancel safe.
async fn denied(denials: &mut Denials, subject: &str) {
    while *denials.next().await != *subject {}
}

/// Runs on the client's own runtime, so that everything that it starts ends with that.
async fn connect(
    settings: Settings,
    options: ConnectOptions,
    life: Arc<Life>,
) -> Result<(Client, Context), async_nats::ConnectError> {
    // TLS needs one implementation for the whole process. An error says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let connected = Arc::new(AtomicBool::new(false));
    let client = client_options(&settings, &options, &life, &connected)?.connect(&settings.servers).await?;
    // Nothing else ran on this thread since the client connected.
    connected.store(true, Ordering::Relaxed);
    let jetstream = ContextBuilder::new()
        .max_ack_inflight(settings.max_ack_inflight)
        .backpressure_on_inflight(true)
        .ack_timeout(options.publish_deadline)
        // Longer than any wait here, which all end with their batch's deadline.
        .timeout(options.publish_deadline * 2)
        .build(client.clone());
    Ok((client, jetstream))
}

fn client_options(
    settings: &Settings,
    options: &ConnectOptions,
    life: &Arc<Life>,
    connected: &Arc<AtomicBool>,
) -> Result<async_nats::ConnectOptions, async_nats::ConnectError> {
    let (heard, lost, connected) = (Arc::clone(life), Arc::clone(life), Arc::clone(connected));
    // One share for each server, and one for JetStream's answer.
    let share = options.timeout / (settings.servers.len() as u32 + 1);
    let mut client = async_nats::ConnectOptions::new()
        .name(&options.client_name)
        .connection_timeout(share)
        .ping_interval(PING_INTERVAL)
        .client_capacity(CLIENT_QUEUE)
        .custom_inbox_prefix(&settings.inbox_prefix)
        .ignore_discovered_servers()
        .event_callback(move |event| {
            heard.hear(event);
            std::future::ready(())
        })
        .reconnect_delay_callback(move |_| {
            // Called before each attempt. After the first success it means that the connection was lost.
            if connected.load(Ordering::Relaxed) {
                lost.lose();
                NO_RECONNECT
            } else {
                Duration::ZERO
            }
        });
    client = match &settings.auth {
        Auth::Anonymous => client,
        Auth::Credentials(text) => client.credentials(text)?,
        Auth::Token(token) => client.token(token.clone()),
        Auth::Nkey(seed) => client.nkey(seed.clone()),
        Auth::Password { user, password } => client.user_and_password(user.clone(), password.clone()),
    };
    if let Some(ca) = &settings.tls.ca {
        client = client.add_root_certificates(ca.clone());
    }
    if let Some((certificate, key)) = &settings.tls.client {
        client = client.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(client)
}
