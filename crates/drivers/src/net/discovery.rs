//! Errors of discovering the nodes of a target.

use loadframe_engine::driver::Failure;
use loadframe_engine::plan::PlanError;

/// An error of node discovery.
#[derive(Clone, Debug)]
pub enum DiscoveryError {
    /// A node refuses access, for example because of a wrong password. A retry would fail too.
    Refused(Failure),
    /// No node gave a usable answer; a retry may succeed.
    Failed(Failure),
}

impl DiscoveryError {
    /// Turns a refusal into an error of the plan, before the load starts. Ignores other failures, since the nodes may
    /// start later.
    pub fn refusal(outcome: Result<(), Self>) -> Result<(), PlanError> {
        match outcome {
            Err(Self::Refused(failure)) => Err(PlanError::target(failure.message)),
            Ok(()) | Err(Self::Failed(_)) => Ok(()),
        }
    }
}

impl From<Failure> for DiscoveryError {
    /// Converts a failure to an error after which a retry may succeed.
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<DiscoveryError> for Failure {
    /// Returns the failure inside.
    fn from(error: DiscoveryError) -> Self {
        let (DiscoveryError::Refused(failure) | DiscoveryError::Failed(failure)) = error;
        failure
    }
}
