//! lapin with publisher confirms.

use anyhow::{Context, Result, bail, ensure};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties};
use outrider_test_support::consume::Delivered;

use super::{Confirms, WINDOW};

/// Messages outlive a restart.
const PERSISTENT: u8 = 2;

pub(super) async fn publish(
    url: &str,
    exchange: &str,
    messages: &[Delivered],
    confirms: &Confirms,
) -> Result<()> {
    let connection =
        Connection::connect(url, ConnectionProperties::default()).await.context("connect to RabbitMQ")?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut unanswered = FuturesUnordered::new();
    for message in messages {
        if unanswered.len() >= WINDOW {
            answered(unanswered.next().await, confirms)?;
        }
        let mut headers = FieldTable::default();
        for (name, value) in &message.headers {
            headers.insert(name.as_str().into(), AMQPValue::LongString(value.as_str().into()));
        }
        let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
        if let Some(id) = &message.native_id {
            properties = properties.with_message_id(id.as_str().into());
        }
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let place = message.place.as_str().into();
        let publish = channel.basic_publish(exchange.into(), place, options, &message.payload, properties);
        unanswered.push(publish.await?);
    }
    while let Some(confirm) = unanswered.next().await {
        answered(Some(confirm), confirms)?;
    }
    connection.close(200, "done".into()).await.context("close the connection")
}

fn answered(confirm: Option<lapin::Result<Confirmation>>, confirms: &Confirms) -> Result<()> {
    let Some(confirm) = confirm else { return Ok(()) };
    match confirm.context("have a message confirmed")? {
        Confirmation::Ack(returned) => ensure!(returned.is_none(), "have a message routed: it came back"),
        Confirmation::Nack(_) => bail!("have a message confirmed: it was refused"),
        Confirmation::NotRequested => bail!("have a message confirmed: confirms are off"),
    }
    confirms.add();
    Ok(())
}
