//! Queries with a name: they are sources like collections, and may be made of each other.

use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet},
};

use smol_str::SmolStr;

use crate::{
    builder::Dynamic,
    caps::DEFINITIONS_MAX,
    database::Database,
    engine,
    error::QueryError,
    ir::{Expr, Query, Rows, Source, Subset, subsets},
};

/// Queries by their names.
pub(crate) type Definitions = BTreeMap<SmolStr, Query>;

impl Database {
    /// Gives a query a name, by which others may have it as a source, as they have a collection.
    ///
    /// ```
    /// use query::{Database, Query, Schema};
    ///
    /// let mut db = Database::new();
    /// db.collection("tasks", Schema::open("id"))?;
    /// let open = r#"{"from":{"col":"tasks","as":"t"},
    ///     "where":[{"fn":"eq","args":[{"ref":["t","done"]},{"val":false}]}]}"#;
    /// db.define("open", &Query::from_json(open)?)?;
    /// db.live(&Query::from_json(r#"{"from":{"col":"open","as":"o"}}"#)?)?;
    ///
    /// let own = Query::from_json(r#"{"from":{"col":"self","as":"s"}}"#)?;
    /// let refused = db.define("self", &own).unwrap_err();
    /// assert!(refused.to_string().contains("self → self"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the name is taken, the query cannot be run, or it needs itself; then nothing is defined.
    pub fn define(&mut self, name: &str, query: &Query) -> Result<(), QueryError> {
        self.define_all([(name, query.clone())])
    }

    /// Gives several queries their names at once, so that each may have any other as a source.
    ///
    /// # Errors
    /// If a name is taken, a query cannot be run, or some need each other; then none is defined.
    pub fn define_all<N: AsRef<str>>(
        &mut self,
        queries: impl IntoIterator<Item = (N, Query)>,
    ) -> Result<(), QueryError> {
        let mut names = Vec::new();
        let defined = self.try_define(queries, &mut names);
        if defined.is_err() {
            names.iter().for_each(|name| drop(self.catalog.definitions.remove(name)));
        }
        defined
    }

    /// Adds queries and their names, one by one, and then looks at them all.
    fn try_define<N: AsRef<str>>(
        &mut self,
        queries: impl IntoIterator<Item = (N, Query)>,
        names: &mut Vec<SmolStr>,
    ) -> Result<(), QueryError> {
        for (name, query) in queries {
            let (name, catalog) = (SmolStr::new(name), &mut self.catalog);
            if catalog.find(&name).is_some() || catalog.definitions.contains_key(&name) {
                return Err(QueryError::NameTaken { name });
            }
            if catalog.definitions.len() >= DEFINITIONS_MAX {
                return Err(QueryError::TooManyDefinitions);
            }
            catalog.definitions.insert(name.clone(), query);
            names.push(name);
        }
        if let Some(cycle) = cycle(&self.catalog.definitions, names) {
            return Err(QueryError::Cycle { cycle });
        }
        for name in names {
            let query = self.catalog.definitions[name].clone();
            engine::compile(&query, &mut self.catalog, self.semantics)?;
        }
        Ok(())
    }

    /// Forgets a name. Queries that run already go on.
    ///
    /// # Errors
    /// If nothing is defined by it, or another definition needs it.
    pub fn undefine(&mut self, name: &str) -> Result<(), QueryError> {
        let definitions = &mut self.catalog.definitions;
        let needs = |query: &Query| sources(query).iter().any(|own| *own == name);
        let users: Vec<_> = definitions
            .iter()
            .filter(|(_, query)| needs(query))
            .map(|(own, _)| own.clone())
            .collect();
        if !users.is_empty() {
            return Err(QueryError::NameInUse { name: name.into(), users });
        }
        match definitions.remove(name) {
            Some(_) => Ok(()),
            None => {
                let known = definitions.keys().cloned().collect();
                Err(QueryError::UnknownCollection { name: name.into(), known })
            }
        }
    }

    /// The rows that the answer of a query may depend on, collection by collection. Rows beyond
    /// these may be missing without a difference, as long as no row leaves a window.
    #[must_use]
    pub fn subsets(&self, query: &Query) -> Vec<(SmolStr, Subset)> {
        subsets(query, &self.catalog.definitions)
    }

    /// Refuses a query whose rows are not of the type that somebody wants to read them as.
    ///
    /// # Errors
    /// If they are not.
    pub fn check_rows<R: 'static>(&self, query: &Query) -> Result<(), QueryError> {
        let wanted = TypeId::of::<R>();
        if wanted == TypeId::of::<Dynamic>() || self.row_type(query) == Some(wanted) {
            return Ok(());
        }
        // A source that is none is told of where the query is run.
        let unknown = |name: &SmolStr| self.find(name).is_none() && self.definition(name).is_none();
        if sources(query).into_iter().any(unknown) {
            return Ok(());
        }
        Err(QueryError::OtherRows { wanted: std::any::type_name::<R>() })
    }

    /// The type of the rows that a query shows, if it shows whole rows.
    fn row_type(&self, query: &Query) -> Option<TypeId> {
        if query.select.is_some() || !query.joins.is_empty() || !query.group_by.is_empty() {
            return None;
        }
        match &query.from.rows {
            Rows::Collection(name) => match self.definition(name) {
                Some(defined) => self.row_type(defined),
                None => self.schema(self.find(name)?).row_type,
            },
            Rows::Query(inner) => self.row_type(inner),
            Rows::Union(all) => {
                let mut types = all.iter().map(|inner| self.row_type(inner));
                let first = types.next()??;
                types.all(|own| own == Some(first)).then_some(first)
            }
        }
    }

    /// The query of this name.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<&Query> {
        self.catalog.definitions.get(name)
    }
}

/// Queries that need each other, from one of them back to it.
fn cycle(definitions: &Definitions, from: &[SmolStr]) -> Option<Vec<SmolStr>> {
    // Not by recursion: names may be as many as there may be definitions.
    let mut done = BTreeSet::new();
    for start in from {
        let mut path: Vec<(&SmolStr, Vec<&SmolStr>)> = Vec::new();
        let mut next = definitions.get_key_value(start);
        loop {
            match next.take() {
                Some((name, query)) => {
                    if let Some(at) = path.iter().position(|(own, _)| *own == name) {
                        let back = path[at..].iter().map(|(own, _)| (*own).clone());
                        return Some(back.chain([name.clone()]).collect());
                    }
                    if !done.contains(name) {
                        path.push((name, sources(query).into_iter().collect()));
                    }
                }
                None => match path.last_mut() {
                    Some((name, rest)) => match rest.pop() {
                        Some(needed) => next = definitions.get_key_value(needed),
                        None => {
                            done.insert(*name);
                            path.pop();
                        }
                    },
                    None => break,
                },
            }
        }
    }
    None
}

/// The names of all collections and queries that a query reads, however deep within it.
fn sources(query: &Query) -> BTreeSet<&SmolStr> {
    let (mut found, mut within) = (BTreeSet::new(), vec![query]);
    while let Some(query) = within.pop() {
        for Source { rows, .. } in query.sources() {
            match rows {
                Rows::Collection(name) => drop(found.insert(name)),
                Rows::Query(query) => within.push(query),
                Rows::Union(queries) => within.extend(queries),
            }
        }
        let included = query.select.iter().flatten().filter_map(|(_, expr)| match expr {
            Expr::Include(include) => Some(&include.query),
            _ => None,
        });
        within.extend(included);
    }
    found
}
