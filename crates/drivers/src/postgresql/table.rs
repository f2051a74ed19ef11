//! The table of a collection, and the SQL of the verbs.

use std::fmt::Write;

use loadframe_engine::driver::{ErrorClass, Failure};
use tokio_postgres::SimpleQueryMessage;

/// Name of the document column, in a table with only a key and this column.
const DOCUMENT: &str = "document";

/// A table with a primary key of one column. All names are quoted.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    name: String,
    /// The column of the ids.
    pub key: String,
    /// The other columns.
    columns: Vec<String>,
    /// The JSON column of whole documents, if it is the only column besides the key.
    pub document: Option<String>,
}

impl Table {
    /// Returns the query for the columns of a collection's table: name, type, whether in the primary key.
    pub fn question(collection: &str) -> String {
        let name = quoted(collection).replace('\'', "''");
        format!(
            "SELECT a.attname, format_type(a.atttypid, NULL), coalesce(a.attnum = ANY(i.indkey), false) \
             FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary \
             WHERE a.attrelid = to_regclass('{name}') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )
    }

    /// Reads the answer to `question`. Fails if the table does not exist or its primary key has not exactly one column.
    pub fn read(collection: &str, answer: &[SimpleQueryMessage]) -> Result<Self, Failure> {
        let mut keys = Vec::new();
        let mut columns = Vec::new();
        for message in answer {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let (name, kind) = (row.get(0).unwrap_or_default(), row.get(1).unwrap_or_default());
            if row.get(2) == Some("t") {
                keys.push(quoted(name))
            } else {
                columns.push((name.to_owned(), kind.to_owned()))
            }
        }
        if keys.is_empty() && columns.is_empty() {
            return Err(Failure::new(ErrorClass::Client, format!("the table \"{collection}\" does not exist")));
        }
        let [key] = keys.as_slice() else {
            let message =
                format!("the verbs want a primary key of one column, and \"{collection}\" has {}", keys.len());
            return Err(Failure::new(ErrorClass::Client, message));
        };
        let document = match columns.as_slice() {
            [(name, kind)] if name == DOCUMENT && kind == "jsonb" => Some(quoted(name)),
            _ => None,
        };
        let columns = columns.iter().map(|(name, _)| quoted(name)).collect();
        Ok(Self { name: quoted(collection), key: key.clone(), columns, document })
    }

    /// Returns a statement that inserts `rows` rows. Values per row: the key, then `columns`.
    pub fn insert(&self, columns: &[String], rows: usize) -> String {
        let mut text = format!("INSERT INTO {} ({}", self.name, self.key);
        columns.iter().for_each(|column| {
            text.push_str(", ");
            text.push_str(column);
        });
        text.push_str(") VALUES ");
        let width = columns.len() + 1;
        for row in 0..rows {
            text.push_str(if row == 0 { "(" } else { ", (" });
            for column in 1..=width {
                let comma = if column == 1 { "" } else { ", " };
                write!(text, "{comma}${}", row * width + column).expect("writing to a String cannot fail");
            }
            text.push(')');
        }
        text
    }

    /// Returns a statement that inserts `rows` rows, or updates `columns` in existing ones; a document column is
    /// merged. Values as for `insert`.
    pub fn upsert(&self, columns: &[String], rows: usize) -> String {
        let merged = |column: &String| format!("{column} = {}.{column} || EXCLUDED.{column}", self.name);
        let taken = |column: &String| format!("{column} = EXCLUDED.{column}");
        let change = if self.document.is_some() { self.change(columns, merged) } else { self.change(columns, taken) };
        format!("{} {change}", self.insert(columns, rows))
    }

    /// Returns a statement that inserts `rows` rows or replaces existing ones; columns that are not named get their
    /// defaults. Values as for `insert`.
    pub fn replace(&self, columns: &[String], rows: usize) -> String {
        format!(
            "{} {}",
            self.insert(columns, rows),
            self.change(&self.columns, |column| format!("{column} = EXCLUDED.{column}"))
        )
    }

    /// Returns the clause for existing rows: `set` returns the assignment of each of the `columns`. Without columns,
    /// existing rows stay unchanged.
    fn change(&self, columns: &[String], set: impl Fn(&String) -> String) -> String {
        if columns.is_empty() {
            return format!("ON CONFLICT ({}) DO NOTHING", self.key);
        }
        format!("ON CONFLICT ({}) DO UPDATE SET {}", self.key, columns.iter().map(set).collect::<Vec<_>>().join(", "))
    }

    /// Returns a statement that updates one row. Values: `columns`, then the key. A document column keeps its other
    /// fields. Without columns, it changes nothing.
    pub fn update(&self, columns: &[String]) -> String {
        let set = |(place, column): (usize, &String)| match &self.document {
            Some(_) => format!("{column} = {column} || ${}", place + 1),
            None => format!("{column} = ${}", place + 1),
        };
        let sets: Vec<_> = columns.iter().enumerate().map(set).collect();
        // A document without fields changes nothing, but the row must still be found.
        let sets = if sets.is_empty() { format!("{0} = {0}", self.key) } else { sets.join(", ") };
        format!("UPDATE {} SET {sets} WHERE {} = ${}", self.name, self.key, columns.len() + 1)
    }

    /// Returns a statement that selects one row by its key: some `fields`, or all columns if there are none.
    pub fn select(&self, fields: &[String]) -> String {
        format!("SELECT {} FROM {} WHERE {} = $1", self.fields(fields), self.name, self.key)
    }

    /// Returns a statement that selects rows in the order of their keys. Values: the first key, and the number of rows.
    pub fn scan(&self) -> String {
        format!("SELECT * FROM {} WHERE {key} >= $1 ORDER BY {key} LIMIT $2", self.name, key = self.key)
    }

    /// Returns a statement that deletes one row by its key.
    pub fn delete(&self) -> String {
        format!("DELETE FROM {} WHERE {} = $1", self.name, self.key)
    }

    /// Returns the columns to select for these fields; all of them if `fields` is empty.
    /// With a document column, selects one object of these fields of the documents instead.
    fn fields(&self, fields: &[String]) -> String {
        if fields.is_empty() {
            return "*".to_owned();
        }
        let Some(document) = &self.document else {
            return fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(", ");
        };
        let pair = |field: &String| {
            let name = field.replace('\'', "''");
            format!("'{name}', {document}->'{name}'")
        };
        format!("jsonb_build_object({}) AS {document}", fields.iter().map(pair).collect::<Vec<_>>().join(", "))
    }
}

/// Quotes an identifier.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a table with the columns `a` and `b`, or with a document column.
    pub fn table(document: bool) -> Table {
        let columns: &[&str] = if document { &["document"] } else { &["a", "b"] };
        Table {
            name: quoted("t"),
            key: quoted("id"),
            columns: columns.iter().map(|name| quoted(name)).collect(),
            document: document.then(|| quoted("document")),
        }
    }

    #[test]
    fn the_verbs_are_statements_on_columns() {
        let (table, a) = (table(false), [quoted("a")]);
        assert_eq!(table.insert(&a, 2), r#"INSERT INTO "t" ("id", "a") VALUES ($1, $2), ($3, $4)"#);
        assert!(table.upsert(&a, 1).ends_with(r#"ON CONFLICT ("id") DO UPDATE SET "a" = EXCLUDED."a""#));
        assert!(table.replace(&a, 1).ends_with(r#"DO UPDATE SET "a" = EXCLUDED."a", "b" = EXCLUDED."b""#));
        assert_eq!(table.update(&a), r#"UPDATE "t" SET "a" = $1 WHERE "id" = $2"#);
        assert_eq!(table.select(&["b".to_owned()]), r#"SELECT "b" FROM "t" WHERE "id" = $1"#);
        assert_eq!(table.scan(), r#"SELECT * FROM "t" WHERE "id" >= $1 ORDER BY "id" LIMIT $2"#);
        assert!(table.upsert(&[], 1).ends_with("DO NOTHING"));
    }

    #[test]
    fn the_verbs_are_statements_on_whole_documents() {
        let (table, document) = (table(true), [quoted("document")]);
        assert!(table.upsert(&document, 1).ends_with(r#"SET "document" = "t"."document" || EXCLUDED."document""#));
        assert!(table.replace(&document, 1).ends_with(r#"SET "document" = EXCLUDED."document""#));
        assert_eq!(table.update(&document), r#"UPDATE "t" SET "document" = "document" || $1 WHERE "id" = $2"#);
        assert!(table.select(&["it's".to_owned()]).contains(r#"jsonb_build_object('it''s', "document"->'it''s')"#));
    }

    /// Checks that quotation marks in names are doubled.
    #[test]
    fn a_name_cannot_end_its_quotes() {
        assert_eq!(quoted(r#"a"b"#), r#""a""b""#);
        assert!(Table::question("a'b").contains(r#"to_regclass('"a''b"')"#));
    }
}
