//! Node selection: the library's policy picks a node that holds the data; this module records the pick.
//!
//! An answer names its node, a failure does not. The policy therefore records its pick in a thread-local variable, and
//! the code that polls the request reads it. A thread polls only one request at a time.

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

/// A policy that records the picks of another policy.
#[derive(Debug)]
pub struct RecordingPolicy {
    policy: Arc<dyn LoadBalancingPolicy>,
}

impl RecordingPolicy {
    /// Creates a token-aware policy: the token's replicas in turn, then the other nodes.
    pub fn token_aware() -> Arc<Self> {
        Arc::new(Self { policy: DefaultPolicy::builder().token_aware(true).build() })
    }
}

impl LoadBalancingPolicy for RecordingPolicy {
    /// Returns the node that the inner policy picks, and records its host id in this thread.
    fn pick<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let picked = self.policy.pick(request, cluster);
        PICKED.set(picked.map(|(node, _)| node.host_id));
        picked
    }

    /// Returns the inner policy's other nodes for a request.
    fn fallback<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        self.policy.fallback(request, cluster)
    }

    /// Returns the inner policy's name.
    fn name(&self) -> String {
        self.policy.name()
    }
}

/// Runs a request. Returns its result, and the first node it was sent to, if any.
pub async fn recorded<F: Future>(request: F) -> (F::Output, Option<Uuid>) {
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
