//! Result of each event of a batch after one answer of the store.

use crate::driver::Reply;

/// State of an event after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The store has it.
    Taken,
    /// Not stored; a retry may succeed.
    Left,
    /// The store refused it permanently.
    Refused,
}

/// Returns index and disposition of each event that the request carried: those at the indices `only`, or all `events`.
///
/// The order is that of the request; `rejected` and `refused` of the reply are indices into it. Only events named in
/// the answer count as refused. Unnamed events count as stored after a success; after a failure only if the store's
/// document count covers all of them. Sending an event again is harmless; dropping it loses data.
pub fn dispositions(reply: &Reply, events: usize, only: Option<&[u32]>) -> Vec<(u32, Disposition)> {
    let carried = only.map_or(events, <[u32]>::len);
    let unnamed = carried.saturating_sub(reply.rejected.len() + reply.refused.len()) as u64;
    let whole = match &reply.outcome {
        Err(_) if reply.documents != unnamed => Disposition::Left,
        _ => Disposition::Taken,
    };
    let mut dispositions: Vec<(u32, Disposition)> = match only {
        None => (0..events as u32).map(|place| (place, whole)).collect(),
        Some(only) => only.iter().map(|place| (*place, whole)).collect(),
    };
    for (places, disposition) in [(&reply.rejected, Disposition::Left), (&reply.refused, Disposition::Refused)] {
        for place in places {
            if let Some((_, old)) = dispositions.get_mut(*place as usize) {
                *old = disposition;
            }
        }
    }
    dispositions
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::driver::{ErrorClass, Failure};

    /// Creates a reply with this number of stored documents, a failure of `class`, and rejected and refused
    /// documents.
    fn reply(documents: u64, class: Option<ErrorClass>, rejected: &[u32], refused: &[u32]) -> Reply {
        let now = Instant::now();
        let outcome = class.map_or(Ok(()), |class| Err(Failure::new(class, "no")));
        Reply { documents, rejected: rejected.to_vec(), refused: refused.to_vec(), ..Reply::new(now, now, outcome) }
    }

    #[test]
    fn only_events_that_the_answer_names_are_refused() {
        use crate::ingest::disposition::Disposition::{Left, Refused, Taken};
        assert_eq!(dispositions(&reply(2, None, &[], &[]), 2, None), [(0, Taken), (1, Taken)]);
        assert_eq!(dispositions(&reply(0, Some(ErrorClass::Connect), &[], &[]), 2, None), [(0, Left), (1, Left)]);
        assert_eq!(dispositions(&reply(0, Some(ErrorClass::Client), &[], &[]), 1, None), [(0, Left)], "such as 401");
        assert_eq!(dispositions(&reply(0, Some(ErrorClass::Client), &[], &[0]), 1, None), [(0, Refused)]);
        let mixed = reply(1, Some(ErrorClass::Item), &[0], &[2]);
        assert_eq!(dispositions(&mixed, 9, Some(&[3, 5, 7])), [(3, Left), (5, Taken), (7, Refused)]);
        let unsure = Reply { documents: 0, ..mixed };
        assert_eq!(dispositions(&unsure, 9, Some(&[3, 5, 7])), [(3, Left), (5, Left), (7, Refused)]);
    }
}
