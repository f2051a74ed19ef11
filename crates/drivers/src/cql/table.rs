//! Tables as used by the neutral verbs: one column holds the id, the others hold a document's fields.

use std::fmt::Write;

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::PlanError;
use scylla::cluster::ClusterState;

/// Default keyspace of collections.
pub const KEYSPACE: &str = "loadframe";

/// A table's name with its keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
}

/// A table with a single key column.
#[derive(Debug)]
pub struct Table {
    /// Quoted name, for use in statements.
    pub name: String,
    /// The column that holds the id.
    pub key: String,
}

impl TableName {
    /// Parses `table` or `keyspace.table`; the default keyspace is `loadframe`. Refuses empty names, and
    /// characters other than ASCII letters, digits and `_`.
    pub fn parse(collection: &str) -> Result<Self, PlanError> {
        let (keyspace, table) = collection.split_once('.').unwrap_or((KEYSPACE, collection));
        let plain = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if plain(keyspace) && plain(table) {
            Ok(Self { keyspace: keyspace.to_owned(), table: table.to_owned() })
        } else {
            Err(PlanError::new(format!("\"{collection}\" is not a valid table name: use letters, digits and _")))
        }
    }
}

impl TableName {
    /// Returns the name of the day's table `table`, in the same keyspace.
    pub fn day(&self, table: &str) -> Self {
        Self { keyspace: self.keyspace.clone(), table: table.to_owned() }
    }

    /// Returns the quoted name, for use in statements.
    pub fn quoted(&self) -> String {
        format!("\"{}\".\"{}\"", self.keyspace, self.table)
    }
}

impl Table {
    /// Looks up a table in a session's metadata. Fails if it is missing there or its key has several columns.
    pub fn find(state: &ClusterState, name: &TableName) -> Result<Self, Failure> {
        let TableName { keyspace, table } = name;
        let wrong = |message: String| Failure::new(ErrorClass::Client, message);
        let metadata = state.get_keyspace(keyspace).and_then(|keyspace| keyspace.tables.get(table));
        let metadata = metadata.ok_or_else(|| wrong(format!("the table {keyspace}.{table} does not exist")))?;
        match (metadata.partition_key.as_slice(), metadata.clustering_key.as_slice()) {
            ([key], []) => Ok(Self::new(name, key)),
            _ => Err(wrong(format!("{keyspace}.{table} has a key of several columns; ask it by cql"))),
        }
    }

    /// Describes the table for statements, without sending any. `key` is its only key column, not quoted.
    fn new(name: &TableName, key: &str) -> Self {
        Self { name: name.quoted(), key: key.to_owned() }
    }

    /// Returns an INSERT statement for the key and `columns`. The key is the first value.
    pub fn insert(&self, columns: &[&str]) -> String {
        let mut text = format!("INSERT INTO {} ({}", self.name, quoted(&self.key));
        columns
            .iter()
            .for_each(|column| write!(text, ", {}", quoted(column)).expect("writing to a String cannot fail"));
        text.push_str(") VALUES (?");
        text.push_str(&", ?".repeat(columns.len()));
        text.push(')');
        text
    }

    /// Returns an UPDATE statement for `columns` of one row. The columns' values come first, then the key.
    pub fn update(&self, columns: &[&str]) -> String {
        let set: Vec<_> = columns.iter().map(|column| format!("{} = ?", quoted(column))).collect();
        format!("UPDATE {} SET {} WHERE {} = ?", self.name, set.join(", "), quoted(&self.key))
    }

    /// Returns a SELECT statement by key, for all columns if `columns` is empty.
    pub fn select(&self, columns: &[&str]) -> String {
        let wanted: Vec<_> = columns.iter().map(|column| quoted(column)).collect();
        let wanted = if wanted.is_empty() { "*".to_owned() } else { wanted.join(", ") };
        format!("SELECT {wanted} FROM {} WHERE {} = ?", self.name, quoted(&self.key))
    }

    /// Returns a scan statement in token order, the only order that a partitioner keeps. Values: the first id, and the
    /// number of rows.
    pub fn scan(&self) -> String {
        let key = quoted(&self.key);
        format!("SELECT * FROM {} WHERE token({key}) >= token(?) LIMIT ?", self.name)
    }

    /// Returns a DELETE statement for the whole row.
    pub fn delete(&self) -> String {
        format!("DELETE FROM {} WHERE {} = ?", self.name, quoted(&self.key))
    }
}

/// Quotes a name for use in a statement.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_its_statement() {
        let table = Table::new(&TableName::parse("usertable").unwrap(), "id");
        assert_eq!(
            table.insert(&["a", "b\"c"]),
            r#"INSERT INTO "loadframe"."usertable" ("id", "a", "b""c") VALUES (?, ?, ?)"#
        );
        assert_eq!(table.update(&["a"]), r#"UPDATE "loadframe"."usertable" SET "a" = ? WHERE "id" = ?"#);
        assert_eq!(table.select(&[]), r#"SELECT * FROM "loadframe"."usertable" WHERE "id" = ?"#);
        assert_eq!(table.select(&["a"]), r#"SELECT "a" FROM "loadframe"."usertable" WHERE "id" = ?"#);
        assert_eq!(table.scan(), r#"SELECT * FROM "loadframe"."usertable" WHERE token("id") >= token(?) LIMIT ?"#);
        assert_eq!(table.delete(), r#"DELETE FROM "loadframe"."usertable" WHERE "id" = ?"#);
    }

    #[test]
    fn a_collection_may_name_its_keyspace() {
        let name = TableName::parse("ycsb.usertable").unwrap();
        assert_eq!((name.keyspace.as_str(), name.table.as_str()), ("ycsb", "usertable"));
        for bad in ["", "a b", "a;b", "a.b.c", "a\"b"] {
            assert!(TableName::parse(bad).is_err(), "{bad}");
        }
    }
}
