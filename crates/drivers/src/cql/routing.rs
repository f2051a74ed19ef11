//! Which node a request goes to: one that holds its data, as the library's own policy picks it; and which one it was.
//!
//! An answer names the node that gave it, a failure does not. So the pick is noted on the thread while a request is
//! polled, and the code that polls it takes the note: only one request is polled at a time.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::policies::load_balancing::{DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::routing::Shard;

use uuid::Uuid;

thread_local! {
    static PICKED: Cell<Option<Uuid>> = const { Cell::new(None) };
}

/// Notes what another policy picks.
#[derive(Debug)]
pub struct Noting {
    policy: Arc<dyn LoadBalancingPolicy>,
}

impl Noting {
    /// Replicas of the request's token in turn, then the others.
    pub fn token_aware() -> Arc<Self> {
        Arc::new(Self { policy: DefaultPolicy::builder().token_aware(true).build() })
    }
}

impl LoadBalancingPolicy for Noting {
    fn pick<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let picked = self.policy.pick(request, cluster);
        PICKED.set(picked.map(|(node, _)| node.host_id));
        picked
    }

    fn fallback<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        self.policy.fallback(request, cluster)
    }

    fn name(&self) -> String {
        self.policy.name()
    }
}

/// What a request comes to, and the node that it was sent to first, if it came so far.
pub async fn noted<F: Future>(request: F) -> (F::Output, Option<Uuid>) {
    let mut request = pin!(request);
    let mut picked = None;
    let answer = poll_fn(|context| {
        PICKED.set(None);
        let polled = request.as_mut().poll(context);
        picked = PICKED.take().or(picked);
        polled
    });
    let answer = answer.await;
    (answer, picked)
}
