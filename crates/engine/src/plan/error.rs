//! Why a phase cannot be run, and whose fault that is.

use std::fmt;

/// Why a phase cannot be run as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Whose fault it is.
    pub kind: PlanErrorKind,
    /// What is wrong, and where.
    pub message: String,
}

/// What a [`PlanError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanErrorKind {
    /// The plan: an unknown word, a number out of its range, a corpus that cannot be read.
    Plan,
    /// The target, which refuses to be used so: its certificate does not verify, the credentials are wrong.
    Target,
    /// This machine: the folder cannot be written, a thread cannot be started.
    Machine,
}

impl PlanError {
    /// The plan is wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Self { kind: PlanErrorKind::Plan, message: message.into() }
    }

    /// The target refuses the plan.
    pub fn target(message: impl Into<String>) -> Self {
        Self { kind: PlanErrorKind::Target, message: message.into() }
    }

    /// This machine cannot run the plan.
    pub fn machine(message: impl Into<String>) -> Self {
        Self { kind: PlanErrorKind::Machine, message: message.into() }
    }

    /// Puts the place in front of the message: `operation "range": unknown variable "lo"`.
    pub fn within(self, place: impl fmt::Display) -> Self {
        Self { kind: self.kind, message: format!("{place}: {}", self.message) }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PlanError {}
