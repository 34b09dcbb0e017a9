//! What is in a file on disk: other builds read and write the same tables, and refuse a file whose
//! migrations are not theirs byte for byte.

use std::path::Path;

use rusqlite::Connection;
use windrow_store_sqlite::{Options, SqliteStore};
use windrow_testkit::kept::assert_kept;

/// Names, columns in their order and indexes of every table, and of each migration what is compared.
#[tokio::test]
async fn the_tables_are_frozen_and_so_are_the_migrations_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.db");
    SqliteStore::open(Options::file(&path)).await.unwrap();
    let conn = Connection::open(&path).unwrap();
    let columns = "SELECT 'table ' || t.name || ' ' || group_concat(c.name || ' ' || c.type, ', ' ORDER BY c.cid)
                     FROM sqlite_schema t JOIN pragma_table_info(t.name) c
                    WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                    GROUP BY t.name ORDER BY t.name";
    let indexes = "SELECT 'index ' || tbl_name || ' ' || name FROM sqlite_schema
                    WHERE type = 'index' AND sql IS NOT NULL ORDER BY tbl_name, name";
    let migrations = "SELECT 'migration V' || version || '__' || name || ' ' || checksum
                        FROM refinery_schema_history ORDER BY version";
    let mut made = String::new();
    for statement in [columns, indexes, migrations] {
        let mut statement = conn.prepare(statement).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.for_each(|row| made.push_str(&format!("{}\n", row.unwrap())));
    }
    assert_kept(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen.txt"), &made);
}
