//! Why it could not be found out which nodes a target has.

use loadframe_engine::driver::Failure;
use loadframe_engine::plan::PlanError;

/// See the module.
#[derive(Clone, Debug)]
pub enum DiscoveryError {
    /// A node answered and refuses us, for example our password: trying again changes nothing.
    Refused(Failure),
    /// No node answered as it should; one may later.
    Failed(Failure),
}

impl DiscoveryError {
    /// A refusal as an error of the plan, before the load; any other failure is ignored, since the nodes may start
    /// later.
    pub fn refusal(outcome: Result<(), Self>) -> Result<(), PlanError> {
        match outcome {
            Err(Self::Refused(failure)) => Err(PlanError::target(failure.message)),
            Ok(()) | Err(Self::Failed(_)) => Ok(()),
        }
    }
}

impl From<Failure> for DiscoveryError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<DiscoveryError> for Failure {
    fn from(error: DiscoveryError) -> Self {
        let (DiscoveryError::Refused(failure) | DiscoveryError::Failed(failure)) = error;
        failure
    }
}
