//! File descriptors: each client holds one, so their limit also limits the requests in flight. Checked before
//! the run.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::pacing::profile::Profile;
use crate::plan::{Pacing, Plan, PlanError, Spread};

/// Descriptors of the process besides its clients: files, timers, libraries.
const OTHERS: u64 = 128;

/// Raises this process's limit of file descriptors to its maximum. Refuses a plan that needs more. `profiles`: of the
/// plan's streams.
pub fn provide(plan: &Plan, profiles: &[Profile]) -> Result<(), PlanError> {
    let limit = raise();
    let hosts = plan.target.hosts.len() as u64;
    // A target without hosts needs no connections.
    let per_client = if plan.target.spread == Spread::Fixed { hosts.min(1) } else { hosts };
    let most = plan.target.connections.unwrap_or(u64::MAX);
    let (mut clients, mut demands) = (0u64, Vec::new());
    for (stream, profile) in plan.streams.iter().zip(profiles) {
        let (count, what) = match stream.pacing {
            Pacing::Closed { .. } => (profile.greatest() as u64, "clients"),
            Pacing::Open { max_in_flight, .. } => (max_in_flight, "requests in flight (max_in_flight)"),
            Pacing::Users { users, clients, .. } => (users.min(clients), "clients"),
            Pacing::Source { workers, .. } => (workers, "workers"),
        };
        clients = clients.saturating_add(count);
        demands.push(format!("stream {:?}: {count} {what}", stream.name));
    }
    // All streams run simultaneously, and share the process and the connections.
    let needed = clients.saturating_mul(per_client).min(most).div_ceil(plan.ranks) + OTHERS;
    if needed > limit {
        return Err(PlanError::new(format!(
            "{} need {needed} file descriptors, and this process may have {limit}: raise the limit (ulimit -n), use \
             fewer clients, limit \"connections\", or use more ranks",
            demands.join(", ")
        )));
    }
    Ok(())
}

/// Raises the soft limit of file descriptors to the hard limit; returns the limit that now applies.
fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // On failure the old limit applies.
    let limit = setrlimit(Resource::Nofile, raised).map_or(limit, |()| raised);
    limit.current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the descriptors of a stream with this pacing, for a target with these hosts.
    fn provide_for(pacing: &serde_json::Value, hosts: &[&str]) -> Result<(), PlanError> {
        with(pacing, &json!({"driver": "search", "hosts": hosts}))
    }

    /// Checks the descriptors of a stream with this pacing, for a target.
    fn with(pacing: &serde_json::Value, target: &serde_json::Value) -> Result<(), PlanError> {
        let plan: Plan = serde_json::from_value(json!({
            "seed": 1, "phase": "p", "target": target, "operations": {"a": {}},
            "streams": [{"name": "s", "mix": [["a", 1]], "pacing": pacing, "stop": {"duration": 1}}],
        }))
        .unwrap();
        let profile = match &plan.streams[0].pacing {
            Pacing::Closed { clients: level, .. } | Pacing::Open { rate: level, .. } => Profile::new(level).unwrap(),
            Pacing::Users { .. } | Pacing::Source { .. } => Profile::new(&crate::plan::Level::Constant(1.0)).unwrap(),
        };
        provide(&plan, &[profile])
    }

    #[test]
    fn more_in_flight_than_file_descriptors_is_said_before_the_run() {
        let error = provide_for(&json!({"open": {"rate": 1, "max_in_flight": 2_000_000_000}}), &["a:1"]).unwrap_err();
        assert!(error.message.contains("file descriptors") && error.message.contains("ulimit -n"), "{error}");
        let error = provide_for(&json!({"closed": {"clients": 900_000_000}}), &["a:1"]).unwrap_err();
        assert!(error.message.contains("stream \"s\": 900000000 clients"), "{error}");
        provide_for(&json!({"open": {"rate": 1}}), &["a:1"]).unwrap();
        provide_for(&json!({"users": {"users": 900_000_000, "clients": 4}}), &["a:1"]).unwrap();
        provide_for(&json!({"closed": {"clients": 900_000_000}}), &[]).unwrap();
    }

    #[test]
    fn the_clients_of_all_streams_are_counted_together() {
        let limit = raise();
        // Each stream alone fits, both together do not.
        let clients = limit * 2 / 3;
        let stream = |name: &str, pacing: serde_json::Value| json!({"name": name, "mix": [["a", 1]], "pacing": pacing, "stop": {"duration": 1}});
        let both = |connections: Option<u64>| {
            let plan: Plan = serde_json::from_value(json!({
                "seed": 1, "phase": "p", "operations": {"a": {}},
                "target": {"driver": "search", "hosts": ["a:1"], "connections": connections},
                "streams": [
                    stream("s", json!({"closed": {"clients": clients}})),
                    stream("t", json!({"open": {"rate": 1, "max_in_flight": clients}})),
                ],
            }))
            .unwrap();
            let profiles =
                [clients as f64, 1.0].map(|level| Profile::new(&crate::plan::Level::Constant(level)).unwrap());
            provide(&plan, &profiles)
        };
        let error = both(None).unwrap_err();
        assert!(error.message.contains("stream \"s\"") && error.message.contains("stream \"t\""), "{error}");
        both(Some(10)).unwrap();
    }

    #[test]
    fn clients_that_share_connections_need_no_more_descriptors_than_these() {
        let clients = json!({"closed": {"clients": 900_000_000}});
        with(&clients, &json!({"driver": "search", "hosts": ["a:1"], "connections": 10})).unwrap();
        with(&clients, &json!({"driver": "search", "hosts": ["a:1"], "connections": 800_000_000})).unwrap_err();
    }
}
