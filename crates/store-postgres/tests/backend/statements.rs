//! Every statement in `sql/` is good on a migrated database, before anybody runs it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Session, fresh};

/// A statement by its file.
struct Statement {
    /// `claim/read_lease`.
    name: String,
    text: String,
}

impl Statement {
    /// The functions it creates.
    fn functions(&self) -> Vec<&str> {
        let parts = self.text.split("CREATE FUNCTION {fn}.").skip(1);
        parts.filter_map(|part| part.split('(').next()).collect()
    }

    /// Filled by the driver or with names, and not by parameters: it cannot be prepared.
    fn is_filled(&self) -> bool {
        let filled = ["\nCOPY ", "{app}", "{history}"];
        filled.iter().any(|place| self.text.contains(place))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path, ending)),
            false => found.extend(path.extension().is_some_and(|e| e == ending).then_some(path)),
        }
    }
    found.sort();
    found
}

fn statements() -> Vec<Statement> {
    let folder = root().join("sql");
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&folder).unwrap().with_extension("");
        Statement {
            name: name.to_str().unwrap().to_owned(),
            text: fs::read_to_string(&path).unwrap(),
        }
    };
    let found: Vec<_> = files(&folder, "sql").into_iter().map(read).collect();
    assert!(found.len() > 50, "the statements are where they were");
    found
}

/// The schema of this build's functions on a migrated database.
async fn functions_schema(session: &Session) -> String {
    let statement = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'windrow\\_fn\\_%'";
    session.query_one(statement, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn every_statement_prepares_and_every_function_is_installed() {
    let database = fresh().await;
    let session = Session::open(&database.url()).await.unwrap();
    let schema = functions_schema(&session).await;
    let statement = "SELECT p.proname::text FROM pg_proc p
                     JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1";
    let rows = session.query(statement, &[&schema]).await.unwrap();
    let mut installed: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let mut wrong = Vec::new();
    let mut written = Vec::new();
    for statement in statements() {
        let functions = statement.functions();
        if functions.is_empty() && !statement.is_filled() {
            let text = statement.text.replace("{fn}", &schema);
            if let Err(error) = session.prepare(&text).await {
                wrong.push(format!("{}: {error:?}", statement.name));
            }
        }
        written.extend(functions.into_iter().map(str::to_owned));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    installed.sort();
    written.sort();
    assert_eq!(installed, written, "functions installed, and in files");
}

#[test]
fn every_statement_carries_its_name() {
    let untagged = |statement: &Statement| !statement.text.contains(&tag(&statement.name));
    let wrong: Vec<_> =
        statements().into_iter().filter(untagged).map(|statement| statement.name).collect();
    assert!(wrong.is_empty(), "no name inside: {}", wrong.join(", "));
}

fn tag(name: &str) -> String {
    format!("/* {name} */")
}

#[test]
fn every_statement_says_what_it_does_and_is_used() {
    let sources: String = files(&root().join("src"), "rs")
        .into_iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for Statement { name, text } in statements() {
        assert!(text.starts_with("-- "), "{name}: its first line says what it does");
        let used = [format!("\"{name}\""), format!("sql/{name}.sql")];
        assert!(used.iter().any(|form| sources.contains(form)), "{name}: nobody runs it");
    }
}
