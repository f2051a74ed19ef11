//! Journeys of users, as defined in plans: a program of steps without backward jumps. Loops have a maximum
//! number of passes, so every journey ends.

use serde::Deserialize;

use super::Think;

/// A step of a journey.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Send a request.
    Ask(Ask),
    /// Wait in real time.
    Think(Think),
    /// Wait for this many seconds of the simulated clock.
    Pause(f64),
    /// Wait until all users of the stream wait here or pause.
    Together,
    /// End the journey.
    Leave,
    /// Repeat steps.
    Repeat(Repeat),
    /// Draw one of several branches.
    Choose(Vec<Branch>),
    /// Choose one of two branches by a test of the user's state.
    When(When),
    /// Record steps together as one additional request.
    Timed(Timed),
}

/// A request of a journey.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// The operation's name.
    pub operation: String,
    /// The time between its answer and the next step.
    #[serde(default)]
    pub think_time: Think,
    /// Reaction to a missing captured value.
    #[serde(default)]
    pub missing: Missing,
}

/// Reaction of a request to a missing captured value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Record a failure without sending the request.
    #[default]
    Fail,
    /// Skip the request.
    Skip,
    /// Record a failure and end the journey.
    Leave,
}

/// A loop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Maximum number of passes.
    pub times: u32,
    /// Ends the loop if it holds before a pass, also the first.
    #[serde(default)]
    pub until: Option<Test>,
    /// Variable that counts the passes, from 0 or from the start that the variable defines.
    #[serde(default)]
    pub count: Option<String>,
    /// The steps to repeat.
    pub steps: Vec<Step>,
}

/// Steps that are also recorded together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// Name in records; no operation may have it.
    pub name: String,
    /// The timed steps. Time runs from the due time of the first to the end of the last.
    pub steps: Vec<Step>,
}

/// A branch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Weight of the branch among all branches.
    pub weight: f64,
    /// Its steps; empty by default.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// A condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The test.
    pub test: Test,
    /// Steps if the test holds.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Steps otherwise.
    #[serde(default)]
    pub otherwise: Vec<Step>,
}

/// Test of a user's state.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// The last request failed with an error of one of these classes; of any class if empty.
    Failed(Vec<String>),
    /// The variable has a captured value.
    Known(String),
    /// Comparison of a captured value.
    Value(Comparison),
    /// The simulated hour of the day is at least the first and below the second.
    Hours(u32, u32),
}

/// Comparison of a captured value: all conditions given must hold. They fail for a missing value, and bounds
/// fail for a value that is not a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The variable.
    pub of: String,
    /// Lower bound, inclusive.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Upper bound, exclusive.
    #[serde(default)]
    pub below: Option<f64>,
    /// Equal to this text; numbers compare by their text.
    #[serde(default)]
    pub equals: Option<String>,
}

/// The simulated clock of a stream's users.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Its start, for example `2018-01-01`.
    pub from: String,
    /// Simulated seconds per second. Without it, all users share a clock that waits for the slowest user.
    #[serde(default)]
    pub scale: Option<f64>,
}
