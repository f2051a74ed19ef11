//! Commands of operations, encoded as BSON once per request.

use bson::RawDocumentBuf;
use loadframe_engine::workload::variables::Values;
use loadframe_engine::workload::variables::template::Template;

use super::bson::{array, document, field, fields, int, nested, switch, text};
use super::operation::Concern;
use crate::crud::{Key, Neutral, Read, Scalar, Scan, Write};
use loadframe_engine::util::json::Unexpected;

/// Name of the id field.
pub const ID: &[u8] = b"_id";

/// Buffers reused for all requests of a client.
#[derive(Debug, Default)]
pub struct Buffers {
    id: Vec<u8>,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Buffers {
    /// Returns the command of a verb; for a read_modify_write, its read. `None` for a bulk request, which is written
    /// elsewhere. Fails for a value that BSON cannot hold.
    pub fn verb(
        &mut self,
        neutral: &Neutral,
        concern: Option<Concern>,
        values: &Values,
    ) -> Option<Result<RawDocumentBuf, Unexpected>> {
        Some(match neutral {
            Neutral::Insert(write) => self.insert(write, concern, values),
            Neutral::Update(write) => self.update(write, false, concern, values),
            Neutral::Upsert(write) => self.update(write, true, concern, values),
            Neutral::Read(Read { key, fields }) => self.read(key, fields, values),
            Neutral::ReadModifyWrite(write) => self.read(&write.key, &[], values),
            Neutral::Delete(key) => self.delete(key, concern, values),
            Neutral::Scan(scan) => self.scan(scan, values),
            Neutral::Bulk(_) => return None,
        })
    }

    /// Renders a template into a command. Fails if it is not a JSON object that BSON can hold.
    pub fn native(&mut self, template: &Template, values: &Values) -> Result<RawDocumentBuf, Unexpected> {
        self.value.clear();
        template.render(values, &mut self.value);
        command(|out| fields(out, &self.value, None))
    }

    /// Renders a document id into the buffer `id`.
    fn draw(&mut self, key: &Key, values: &Values) {
        self.id.clear();
        key.id.render(values, &mut self.id);
    }

    /// Appends the field with the id of the last `draw` to `out`. Fails if the id cannot be encoded.
    fn id(&self, out: &mut Vec<u8>) -> Result<(), Unexpected> {
        field(out, ID, &Scalar::Text(String::from_utf8_lossy(&self.id)))
    }

    /// Appends the names and values of a write to `out`, without the id. Fails for a value that BSON cannot hold.
    fn document(&mut self, out: &mut Vec<u8>, write: &Write, values: &Values) -> Result<(), Unexpected> {
        for (name, cell) in &write.document {
            self.name.clear();
            name.render(values, &mut self.name);
            if self.name != ID {
                field(out, &self.name, &cell.scalar(values, &mut self.value).ok_or(Unexpected)?)?;
            }
        }
        Ok(())
    }

    /// Returns a command that inserts a document with a drawn id and drawn values. Fails for a value that BSON cannot
    /// hold.
    fn insert(
        &mut self,
        write: &Write,
        concern: Option<Concern>,
        values: &Values,
    ) -> Result<RawDocumentBuf, Unexpected> {
        self.draw(&write.key, values);
        command(|out| {
            text(out, "insert", &write.key.collection);
            array(out, "documents", |out| {
                nested(out, "0", |out| {
                    self.id(out)?;
                    self.document(out, write, values)
                })
            })?;
            write_concern(out, concern)
        })
    }

    /// Returns a command that changes fields of the document with a drawn id. `make`: it creates the document if it
    /// does not exist. Fails for a value that BSON cannot hold.
    pub fn update(
        &mut self,
        write: &Write,
        make: bool,
        concern: Option<Concern>,
        values: &Values,
    ) -> Result<RawDocumentBuf, Unexpected> {
        self.draw(&write.key, values);
        command(|out| {
            text(out, "update", &write.key.collection);
            array(out, "updates", |out| {
                nested(out, "0", |out| {
                    nested(out, "q", |out| self.id(out))?;
                    nested(out, "u", |out| nested(out, "$set", |out| self.document(out, write, values)))?;
                    if make {
                        switch(out, "upsert", true);
                    }
                    Ok(())
                })
            })?;
            write_concern(out, concern)
        })
    }

    /// Returns a command that deletes the document with a drawn id. Fails if the id cannot be encoded.
    fn delete(&mut self, key: &Key, concern: Option<Concern>, values: &Values) -> Result<RawDocumentBuf, Unexpected> {
        self.draw(key, values);
        command(|out| {
            text(out, "delete", &key.collection);
            array(out, "deletes", |out| {
                nested(out, "0", |out| {
                    nested(out, "q", |out| self.id(out))?;
                    int(out, "limit", 1);
                    Ok(())
                })
            })?;
            write_concern(out, concern)
        })
    }

    /// Returns a command that reads the fields of the document with a drawn id; all of them if `fields` is empty. Fails
    /// for a name with a zero byte.
    fn read(&mut self, key: &Key, fields: &[Template], values: &Values) -> Result<RawDocumentBuf, Unexpected> {
        self.draw(key, values);
        command(|out| {
            text(out, "find", &key.collection);
            nested(out, "filter", |out| self.id(out))?;
            if !fields.is_empty() {
                nested(out, "projection", |out| self.projection(out, fields, values))?;
            }
            int(out, "limit", 1);
            switch(out, "singleBatch", true);
            Ok(())
        })
    }

    /// Appends the projection of a read to `out`. It excludes the id unless `fields` has it. Fails for a name with a
    /// zero byte.
    fn projection(&mut self, out: &mut Vec<u8>, fields: &[Template], values: &Values) -> Result<(), Unexpected> {
        let mut with_id = false;
        for template in fields {
            self.name.clear();
            template.render(values, &mut self.name);
            with_id |= self.name == ID;
            field(out, &self.name, &Scalar::Int(1))?;
        }
        if !with_id {
            int(out, "_id", 0);
        }
        Ok(())
    }

    /// Returns a command that reads the documents from a drawn id on, at most a drawn count, ascending by id. Fails if
    /// the count is not an integer.
    fn scan(&mut self, scan: &Scan, values: &Values) -> Result<RawDocumentBuf, Unexpected> {
        self.draw(&scan.from, values);
        let Some(Scalar::Int(count)) = scan.count.scalar(values, &mut self.value) else { return Err(Unexpected) };
        command(|out| {
            text(out, "find", &scan.from.collection);
            nested(out, "filter", |out| {
                nested(out, "_id", |out| field(out, b"$gte", &Scalar::Text(String::from_utf8_lossy(&self.id))))
            })?;
            nested(out, "sort", |out| {
                int(out, "_id", 1);
                Ok(())
            })?;
            int(out, "limit", count);
            // Request all documents in one answer, up to the size limit of an answer.
            int(out, "batchSize", count);
            Ok(())
        })
    }
}

/// Builds a command, which is a document, from the fields that `fields` appends. Returns its error.
pub fn command(fields: impl FnOnce(&mut Vec<u8>) -> Result<(), Unexpected>) -> Result<RawDocumentBuf, Unexpected> {
    let mut out = Vec::with_capacity(256);
    document(&mut out, fields)?;
    RawDocumentBuf::from_bytes(out).map_err(|_| Unexpected)
}

/// Appends the write concern to `out`, if there is one. Does not fail.
pub fn write_concern(out: &mut Vec<u8>, concern: Option<Concern>) -> Result<(), Unexpected> {
    let Some(concern) = concern else { return Ok(()) };
    nested(out, "writeConcern", |out| {
        match concern {
            Concern::Unacknowledged => int(out, "w", 0),
            Concern::Acknowledged => int(out, "w", 1),
            Concern::Journaled => {
                int(out, "w", 1);
                switch(out, "j", true);
            }
            Concern::Majority => text(out, "w", "majority"),
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use loadframe_engine::driver::Context;
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::{Captured, Variables};
    use serde_json::{Value, json};

    use super::super::bson;
    use super::*;

    /// Returns a verb's command as JSON, with the variable `n` drawn as 7.
    fn written(verb: &str, argument: Value, concern: Option<Concern>) -> Option<Value> {
        let forms = json!({"n": {"constant": 7}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        let context = Context { variables, corpora: Corpora::default() };
        let draw = Draw::new(1, 2, 3);
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        let neutral = Neutral::map(verb, &argument, &context).unwrap().unwrap();
        let command = Buffers::default().verb(&neutral, concern, &values).unwrap().ok()?;
        bson::json(&command)
    }

    #[test]
    fn verbs_are_commands_with_their_holes_filled() {
        let key = json!({"collection": "c", "id": "u${n}"});
        let write =
            json!({"collection": "c", "id": "u${n}", "document": {"_id": "x", "a": "${n}", "b": {"c": ["${n}"]}}});
        for (verb, argument, command) in [
            (
                "insert",
                &write,
                json!({"insert": "c", "documents": [{"_id": "u7", "a": 7, "b": {"c": [7]}}], "writeConcern": {"w": 0}}),
            ),
            (
                "update",
                &write,
                json!({"update": "c", "updates": [{"q": {"_id": "u7"}, "u": {"$set": {"a": 7, "b": {"c": [7]}}}}],
                    "writeConcern": {"w": 0}}),
            ),
            (
                "upsert",
                &write,
                json!({"update": "c", "updates": [{"q": {"_id": "u7"}, "u": {"$set": {"a": 7, "b": {"c": [7]}}},
                    "upsert": true}], "writeConcern": {"w": 0}}),
            ),
            (
                "delete",
                &key,
                json!({"delete": "c", "deletes": [{"q": {"_id": "u7"}, "limit": 1}], "writeConcern": {"w": 0}}),
            ),
            ("read", &key, json!({"find": "c", "filter": {"_id": "u7"}, "limit": 1, "singleBatch": true})),
            (
                "read_modify_write",
                &write,
                json!({"find": "c", "filter": {"_id": "u7"}, "limit": 1, "singleBatch": true}),
            ),
        ] {
            assert_eq!(written(verb, argument.clone(), Some(Concern::Unacknowledged)).unwrap(), command, "{verb}");
        }
        assert_eq!(
            written("read", json!({"collection": "c", "id": 7, "fields": ["a"]}), None).unwrap()["projection"],
            json!({"_id": 0, "a": 1})
        );
        assert_eq!(
            written("scan", json!({"collection": "c", "from": "a", "count": "${n}"}), None).unwrap(),
            json!({"find": "c", "filter": {"_id": {"$gte": "a"}}, "sort": {"_id": 1}, "limit": 7, "batchSize": 7})
        );
    }

    /// Checks the `writeConcern` of commands.
    #[test]
    fn a_write_says_how_sure_it_has_to_be() {
        let concern = |concern| {
            written("delete", json!({"collection": "c", "id": "a"}), concern).unwrap().get("writeConcern").cloned()
        };
        assert_eq!(concern(None), None);
        assert_eq!(concern(Some(Concern::Acknowledged)), Some(json!({"w": 1})));
        assert_eq!(concern(Some(Concern::Journaled)), Some(json!({"w": 1, "j": true})));
        assert_eq!(concern(Some(Concern::Majority)), Some(json!({"w": "majority"})));
    }
}
