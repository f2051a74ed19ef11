//! Statements that control their transaction. They must be recognised, because rolled-back rows do not count.

use loadframe_engine::plan::PlanError;

use super::request::commands;

/// Remedy for a statement that must be part of a transaction.
pub const TRANSACTION: &str = "put statements that belong together into \"transaction\"";

/// Effect of a statement on its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// No effect.
    None,
    /// Rolls the transaction back.
    Rollback,
    /// Sets a savepoint with this name.
    Savepoint(String),
    /// Rolls back to the savepoint with this name.
    RollbackTo(String),
}

impl Control {
    /// Parses the effect of a statement on its transaction. Refuses statements that begin, commit or prepare a
    /// transaction, and transaction control among several commands; does not read on after a CREATE.
    pub fn of(statement: &str) -> Result<Self, PlanError> {
        let commands = commands(statement);
        let mut controls = Vec::new();
        for command in &commands {
            let words: Vec<String> =
                command.split_whitespace().map(|word| word.trim_matches('"').to_uppercase()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let last = || words.last().map_or(String::new(), |word| (*word).to_owned());
            controls.push(match words.as_slice() {
                // The body of a function contains separate commands.
                ["CREATE", ..] => return Ok(Self::None),
                ["BEGIN" | "START" | "COMMIT" | "END", ..] | ["PREPARE", "TRANSACTION", ..] => {
                    return Err(PlanError::new(format!("the driver sends {}; {TRANSACTION}", words[0])));
                }
                ["ROLLBACK", "TO", ..] | ["ROLLBACK", _, "TO", ..] => Self::RollbackTo(last()),
                ["ROLLBACK" | "ABORT", ..] => Self::Rollback,
                ["SAVEPOINT", _] => Self::Savepoint(last()),
                _ => Self::None,
            });
        }
        match controls.as_slice() {
            [control] => Ok(control.clone()),
            controls if controls.iter().all(|control| *control == Self::None) => Ok(Self::None),
            _ => Err(PlanError::new(format!("\"{statement}\" has several commands; {TRANSACTION}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_commands_are_recognised_only_as_commands() {
        let control = |statement: &str| Control::of(statement).map_err(|error| error.message);
        for plain in
            ["SELECT 1", "SELECT 'a; ROLLBACK'", "SELECT 1; -- ; COMMIT\nSELECT 2;", "UPDATE t SET \"commit\" = 1", ""]
        {
            assert_eq!(control(plain), Ok(Control::None), "{plain}");
        }
        let body = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC; SELECT 1; END";
        assert_eq!(control(body), Ok(Control::None));
        assert_eq!(control("/* why */ abort"), Ok(Control::Rollback));
        assert_eq!(control("savepoint one;"), Ok(Control::Savepoint("ONE".into())));
        assert_eq!(control("ROLLBACK TO one"), Ok(Control::RollbackTo("ONE".into())));
        assert_eq!(control("ROLLBACK WORK TO SAVEPOINT \"one\""), Ok(Control::RollbackTo("ONE".into())));
        assert!(control("START TRANSACTION").unwrap_err().starts_with("the driver sends START"));
        assert!(control("prepare transaction 'x'").is_err());
        assert!(control("INSERT INTO t VALUES (1); ROLLBACK").unwrap_err().contains("has several commands"));
    }
}
