//! Sending the events of a source: a bulk request for each batch, and smaller ones where the store cannot read one.
//!
//! A store that cannot read one line of such a request refuses all of it, without saying which line that was. The
//! events around it must get through, so the batch is halved until the line stands alone.

use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{Context, ErrorClass, Failure, Reply};
use loadframe_engine::event::Batch;
use loadframe_engine::variables::{Captured, Values};

use super::{Operation, Search};
use crate::http1::Connection;
use crate::net::deadline::Limit;
use crate::search::operations::take_in;
use crate::take_in::{TakeIn, count};
use crate::tally::Tally;

/// The answers that say that a request could not be read, or is too large.
const UNREADABLE: [u16; 2] = [400, 413];

impl Search {
    /// Sends the events at the places `only` of a batch, or all.
    pub(super) async fn send_events(
        &self,
        connection: &mut Connection,
        (operation, form): (&Operation, &TakeIn),
        context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        let whole = self.send_once(connection, (operation, form), context, batch, only).await;
        let carried = count(batch, only);
        if !is_unreadable(connection, &whole) || carried < 2 {
            return whole;
        }
        let all: Vec<u32> = only.map_or_else(|| (0..carried as u32).collect(), <[u32]>::to_vec);
        let (sent, mut tally) = (whole.sent, Tally::default());
        let (mut last, mut bytes_sent, mut bytes_received) = (whole, 0, 0);
        // Halves that are still to be sent, by their places in `all`; the next one is the last.
        let mut halves = vec![carried / 2..carried, 0..carried / 2];
        while let Some(half) = halves.pop() {
            bytes_sent += last.bytes_sent;
            bytes_received += last.bytes_received;
            last = self.send_once(connection, (operation, form), context, batch, Some(&all[half.clone()])).await;
            if is_unreadable(connection, &last) && half.len() > 1 {
                let middle = half.start + half.len() / 2;
                halves.extend([middle..half.end, half.start..middle]);
                continue;
            }
            let within = |places: &[u32]| places.iter().map(|place| place + half.start as u32).collect::<Vec<_>>();
            tally.succeed(last.documents);
            let Err(failure) = &last.outcome else { continue };
            if last.rejected.is_empty() && last.refused.is_empty() {
                tally.fail_at(&within(&(0..half.len() as u32).collect::<Vec<_>>()), failure.clone());
                continue;
            }
            let of_class = |class| Failure { class, message: failure.message.clone() };
            for (places, class) in [(&last.rejected, ErrorClass::Rejected), (&last.refused, ErrorClass::Client)] {
                if !places.is_empty() {
                    tally.fail_at(&within(places), of_class(class));
                }
            }
        }
        Reply {
            bytes_sent: bytes_sent + last.bytes_sent,
            bytes_received: bytes_received + last.bytes_received,
            node: last.node,
            status: last.status,
            ..tally.settle(sent, last.done)
        }
    }

    /// Sends one request.
    async fn send_once(
        &self,
        connection: &mut Connection,
        (operation, form): (&Operation, &TakeIn),
        context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        connection.give(|body| take_in::body(form, batch, only, body));
        let draw = Draw::new(0, 0, connection.number());
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        self.step(connection, &operation.step, None, Limit::starting_now(operation.timeout), &values).await
    }
}

/// Whether all of a request was refused because of what some of it is.
fn is_unreadable(connection: &Connection, reply: &Reply) -> bool {
    let refused = reply.outcome.as_ref().is_err_and(|failure| failure.class == ErrorClass::Client);
    refused && UNREADABLE.contains(&connection.answer().status())
}
