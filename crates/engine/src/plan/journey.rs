//! The journey of users, as plans have it: a small program of steps, each of which can only go on, so that every loop has
//! an end that can be seen.

use serde::Deserialize;

use super::Think;

/// A step of a journey.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// A request.
    Ask(Ask),
    /// Nothing, for a time of the real clock.
    Think(Think),
    /// Nothing, for so many seconds of the simulated clock.
    Pause(f64),
    /// Waits until all users of the stream stand here, or pause.
    Together,
    /// The journey is over.
    Leave,
    /// Some steps again and again.
    Repeat(Repeat),
    /// One of several ways, drawn.
    Choose(Vec<Way>),
    /// One of two ways, by what has happened to the user.
    When(When),
    /// Some steps that are recorded as one request of their own, beside what they ask for.
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
    /// What becomes of it when no answer has given the user a value that it needs.
    #[serde(default)]
    pub missing: Missing,
}

/// What becomes of a request that lacks a value that some answer should have given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It is recorded as failed, without being sent.
    #[default]
    Fail,
    /// The user goes on without it.
    Skip,
    /// The same failure, after which the journey is over.
    Leave,
}

/// A loop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// How often at most.
    pub times: u32,
    /// Ends it before.
    #[serde(default)]
    pub until: Option<Test>,
    /// The variable that counts its passes, from 0 on or from where the variable says.
    #[serde(default)]
    pub count: Option<String>,
    /// What is repeated.
    pub steps: Vec<Step>,
}

/// Steps that are recorded together, too.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// The name that they are recorded under; no operation has it.
    pub name: String,
    /// What is timed: from when the user is due at the first of them until it is through with the last.
    pub steps: Vec<Step>,
}

/// One of the ways to go on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// How often it is taken, beside the others' weights.
    pub weight: f64,
    /// Where it leads; nothing to do by default.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// A condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// What is asked.
    pub test: Test,
    /// What is done if it holds.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// What is done if not.
    #[serde(default)]
    pub otherwise: Vec<Step>,
}

/// What a user's way may depend on.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// The last request failed with an error of one of these classes; of any, if none is named.
    Failed(Vec<String>),
    /// An answer has given the variable a value.
    Known(String),
    /// The value of a variable that answers give.
    Value(Comparison),
    /// The simulated hour of the day is the first or later, and before the second.
    Hours(u32, u32),
}

/// A comparison of what an answer gave; all that is said must hold. Nothing holds for a value that is not known, and no
/// bound for one that is not a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The variable.
    pub of: String,
    /// Its least value.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// It is less than this.
    #[serde(default)]
    pub below: Option<f64>,
    /// It is this text, or a number that is written like this.
    #[serde(default)]
    pub equals: Option<String>,
}

/// The simulated clock of a stream's users.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Where it begins, such as `2018-01-01`.
    pub from: String,
    /// Simulated seconds per second; without it the clock is shared by all users and waits for the slowest.
    #[serde(default)]
    pub scale: Option<f64>,
}
