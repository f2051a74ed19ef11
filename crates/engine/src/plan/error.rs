//! Error that prevents a phase from running, with the component to blame.

use std::fmt;

/// Reason why a phase cannot run as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The component to blame.
    pub kind: PlanErrorKind,
    /// The error and its location.
    pub message: String,
}

/// The component to blame for a [`PlanError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanErrorKind {
    /// The plan: an unknown word, a number out of range, an unreadable corpus.
    Plan,
    /// The target: an invalid certificate, wrong credentials.
    Target,
    /// This machine: the folder is not writable, a thread cannot start.
    Machine,
}

impl PlanError {
    /// Creates an error of the plan.
    pub fn new(message: impl Into<String>) -> Self {
        Self { kind: PlanErrorKind::Plan, message: message.into() }
    }

    /// Creates an error of the target.
    pub fn target(message: impl Into<String>) -> Self {
        Self { kind: PlanErrorKind::Target, message: message.into() }
    }

    /// Creates an error of this machine.
    pub fn machine(message: impl Into<String>) -> Self {
        Self { kind: PlanErrorKind::Machine, message: message.into() }
    }

    /// Prefixes the message with a location: `operation "range": unknown variable "lo"`.
    pub fn within(self, place: impl fmt::Display) -> Self {
        Self { kind: self.kind, message: format!("{place}: {}", self.message) }
    }
}

impl fmt::Display for PlanError {
    /// Writes the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PlanError {}
