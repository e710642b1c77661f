//! Typed rows: what a collection holds, and which events write it.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Serialize, de::DeserializeOwned};

use crate::{BadJson, BadName, BadPatch, Draft, Json, Key, State, TypeName};

/// A collection of rows of type `T`: its type on the wire, and which part of a row is the key.
///
/// ```
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Task { number: u32 }
/// use state::Collection;
///
/// let tasks = Collection::<Task>::new("task", |task| task.number.to_string().into())?;
/// let draft = tasks.insert(&Task { number: 7 })?;
/// assert_eq!(draft.key().as_str(), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Collection<T> {
    type_name: TypeName,
    key: fn(&T) -> Cow<'_, str>,
}

/// A row that does not fit its collection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadRow {
    /// The schema has no such collection.
    #[error("the schema has no collection of type {0:?}")]
    UnknownType(String),
    /// Its key is no name.
    #[error("the key of the row: {0}")]
    Key(#[from] BadName),
    /// It would come to lie under another key.
    #[error("the change would move the row from key {from:?} to {to:?}; insert and delete instead")]
    KeyMoved {
        /// The key it has.
        from: Key,
        /// The key it would have.
        to: Key,
    },
    /// It is not the JSON of its type.
    #[error(transparent)]
    Json(#[from] BadJson),
    /// Its patch cannot be applied.
    #[error(transparent)]
    Patch(#[from] BadPatch),
}

impl<T: Serialize + DeserializeOwned> Collection<T> {
    /// A collection of this type on the wire, whose keys are what `key` says.
    ///
    /// # Errors
    /// If the type is no name.
    pub fn new(type_name: &str, key: fn(&T) -> Cow<'_, str>) -> Result<Self, BadName> {
        Ok(Self { type_name: TypeName::new(type_name)?, key })
    }

    /// Its type on the wire.
    #[must_use]
    pub fn type_name(&self) -> &TypeName {
        &self.type_name
    }

    /// The key of a row.
    ///
    /// # Errors
    /// If it is empty or too long.
    pub fn key_of(&self, row: &T) -> Result<Key, BadName> {
        Key::new(&(self.key)(row))
    }

    /// The event that makes a row.
    ///
    /// # Errors
    /// If the row has no key or is no JSON.
    pub fn insert(&self, row: &T) -> Result<Draft, BadRow> {
        Ok(Draft::insert(self.type_name.clone(), self.key_of(row)?, Json::of(row)?))
    }

    /// The event that replaces a row. Fields that `T` does not know are lost;
    /// [`Collection::patch`] keeps them.
    ///
    /// # Errors
    /// If the row has no key or is no JSON.
    pub fn update(&self, row: &T) -> Result<Draft, BadRow> {
        Ok(Draft::update(self.type_name.clone(), self.key_of(row)?, Json::of(row)?))
    }

    /// An update that also says what it replaces.
    ///
    /// # Errors
    /// If a row has no key or is no JSON, or their keys differ.
    pub fn update_from(&self, old: &T, new: &T) -> Result<Draft, BadRow> {
        let key = self.same_key(self.key_of(old)?, new)?;
        Ok(Draft::update_from(self.type_name.clone(), key, Json::of(old)?, Json::of(new)?))
    }

    /// The event that makes or replaces a row; see [`Draft::upsert`] before you use it.
    ///
    /// # Errors
    /// If the row has no key or is no JSON.
    pub fn upsert(&self, row: &T) -> Result<Draft, BadRow> {
        Ok(Draft::upsert(self.type_name.clone(), self.key_of(row)?, Json::of(row)?))
    }

    /// The event that ends the row of this key.
    pub fn delete(&self, key: &Key) -> Draft {
        Draft::delete(self.type_name.clone(), key.clone())
    }

    /// A delete that also says what it ends.
    ///
    /// # Errors
    /// If the row has no key or is no JSON.
    pub fn delete_of(&self, row: &T) -> Result<Draft, BadRow> {
        Ok(Draft::delete_of(self.type_name.clone(), self.key_of(row)?, Json::of(row)?))
    }

    /// The update that merges a patch into the row as it is ([`Json::merge`]), so that fields that
    /// `T` does not know survive.
    ///
    /// # Errors
    /// If the patch cannot be applied, or what it comes to is no `T` of the same key.
    pub fn patch(
        &self,
        key: &Key,
        row: &Json,
        patch: &(impl Serialize + ?Sized),
    ) -> Result<Draft, BadRow> {
        let merged = row.merge(&Json::of(patch)?)?;
        let key = self.same_key(key.clone(), &merged.read()?)?;
        Ok(Draft::update(self.type_name.clone(), key, merged))
    }

    /// The row of this key in a state.
    #[must_use]
    pub fn get(&self, state: &State, key: &str) -> Option<Result<T, BadJson>> {
        state.get(self.type_name.as_str(), key).map(|row| row.value.read())
    }

    /// The rows of a state, in no order that means anything.
    pub fn rows<'a>(
        &'a self,
        state: &'a State,
    ) -> impl Iterator<Item = (&'a Key, Result<T, BadJson>)> {
        state.rows(self.type_name.as_str()).map(|(key, row)| (key, row.value.read()))
    }

    fn same_key(&self, from: Key, row: &T) -> Result<Key, BadRow> {
        let to = self.key_of(row)?;
        if from == to { Ok(from) } else { Err(BadRow::KeyMoved { from, to }) }
    }
}

/// The collections that a program knows, to check rows against.
///
/// The fold does not ask it: a row that does not fit stays in the state as it came, and whoever
/// reads it decides.
#[derive(Debug, Default)]
pub struct Schema {
    checks: BTreeMap<TypeName, Check>,
}

type Check = fn(&Json) -> Result<(), BadJson>;

/// Two collections of one type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two collections have the type {0}; give each its own")]
pub struct DuplicateType(pub TypeName);

impl Schema {
    /// A schema without collections.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a collection.
    ///
    /// # Errors
    /// If another one has its type.
    pub fn with<T: Serialize + DeserializeOwned>(
        mut self,
        collection: &Collection<T>,
    ) -> Result<Self, DuplicateType> {
        let name = collection.type_name.clone();
        match self.checks.insert(name, |json| json.read::<T>().map(drop)) {
            None => Ok(self),
            Some(_) => Err(DuplicateType(collection.type_name.clone())),
        }
    }

    /// The types it knows, sorted.
    pub fn types(&self) -> impl Iterator<Item = &TypeName> {
        self.checks.keys()
    }

    /// Checks a row against the collection of its type.
    ///
    /// # Errors
    /// If there is no such collection, or the row does not fit it.
    pub fn check(&self, type_name: &str, row: &Json) -> Result<(), BadRow> {
        match self.checks.get(type_name) {
            Some(check) => Ok(check(row)?),
            None => Err(BadRow::UnknownType(type_name.chars().take(64).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::testing::split;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct User {
        id: String,
        age: u8,
    }

    fn users() -> Collection<User> {
        Collection::<User>::new("user", |user| user.id.as_str().into()).unwrap()
    }

    fn user(id: &str, age: u8) -> User {
        User { id: id.into(), age }
    }

    fn fold(drafts: &[Draft]) -> State {
        let messages: Vec<String> = drafts.iter().map(Draft::encode).collect();
        let mut state = State::new();
        for tick in split(&messages, &[]) {
            state.apply(tick);
        }
        state
    }

    #[test]
    fn typed_rows_go_in_and_come_out() {
        let users = users();
        let state = fold(&[
            users.insert(&user("1", 30)).unwrap(),
            users.upsert(&user("2", 40)).unwrap(),
            users.insert(&user("3", 50)).unwrap(),
            users.update(&user("2", 41)).unwrap(),
            users.update_from(&user("1", 30), &user("1", 31)).unwrap(),
            users.delete(&"3".parse().unwrap()),
        ]);
        assert_eq!(users.get(&state, "1").unwrap().unwrap(), user("1", 31));
        assert_eq!(users.get(&state, "2").unwrap().unwrap(), user("2", 41));
        assert!(users.get(&state, "3").is_none());
        assert_eq!(users.rows(&state).count(), 2);
        let state = fold(&[users.delete_of(&user("1", 1)).unwrap()]);
        assert!(state.is_empty());
    }

    #[test]
    fn a_patch_keeps_what_the_type_does_not_know() {
        let row: Json = r#"{"id":"1","age":30,"theirs":[1.0]}"#.parse().unwrap();
        let draft = users().patch(&"1".parse().unwrap(), &row, &json!({"age": 31})).unwrap();
        let state = fold(&[draft]);
        let value = &state.get("user", "1").unwrap().value;
        assert_eq!(value.as_str(), r#"{"id":"1","age":31,"theirs":[1.0]}"#);
    }

    #[test]
    fn events_of_wrong_rows_are_not_drafted() {
        let (users, key) = (users(), Key::new("1").unwrap());
        let row = Json::of(&user("1", 30)).unwrap();
        assert!(matches!(users.insert(&user("", 1)), Err(BadRow::Key(BadName::Empty))));
        let moved = users.update_from(&user("1", 1), &user("2", 1));
        assert!(matches!(moved, Err(BadRow::KeyMoved { .. })));
        let moved = users.patch(&key, &row, &json!({"id": "2"}));
        assert!(matches!(moved, Err(BadRow::KeyMoved { .. })));
        let broken = users.patch(&key, &row, &json!({"age": null}));
        assert!(matches!(broken, Err(BadRow::Json(_))));
    }

    #[test]
    fn a_schema_checks_rows_by_type() {
        let schema = Schema::new().with(&users()).unwrap();
        assert!(schema.check("user", &Json::of(&user("1", 1)).unwrap()).is_ok());
        assert!(matches!(schema.check("user", &"{}".parse().unwrap()), Err(BadRow::Json(_))));
        let unknown = schema.check("usr", &"{}".parse().unwrap());
        assert!(matches!(unknown, Err(BadRow::UnknownType(name)) if name == "usr"));
        assert!(schema.types().map(TypeName::as_str).eq(["user"]));
        assert_eq!(schema.with(&users()).unwrap_err().0.as_str(), "user");
    }
}
