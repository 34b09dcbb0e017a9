//! Real files of rows through the whole ingest, into a store and a storage, and each row read back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[allow(dead_code, reason = "its troubles are for other tests")]
mod fake;

use std::io::{Cursor, Write as _};

use fake::{Fake, new_file};
use image::{DynamicImage, ImageFormat, RgbImage};
use proptest::prelude::*;
use rust_xlsxwriter::{ExcelDateTime, Format, Workbook};
use windrow_engine::ingest::{
    Error, Ingested, Options, PictureArchive, ingest_input, ingest_pictures, recut,
};
use windrow_engine::pictures::{Picture, Pictures, thumbnail_name};
use windrow_engine::rows::{Head, InputOptions, RowFormat, read_row};
use windrow_engine::storage::Storage;
use windrow_recipe::Cell;
use windrow_store::ingest::{FileState, NewFile};
use windrow_store::{Inspect as _, Scope};
use windrow_store_sqlite::SqliteStore;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

fn named(name: &str) -> NewFile {
    NewFile { name: name.to_owned(), ..new_file() }
}

/// Small enough that every test crosses blocks and chunks.
fn small() -> Options {
    Options::default().block_bytes(7).chunk_bytes_max(64).chunk_lines_max(3).line_bytes_max(4096)
}

struct Taken {
    store: Fake,
    storage: Storage,
    done: Result<Ingested, Error>,
}

async fn take(name: &str, bytes: &[u8], told: InputOptions) -> Taken {
    let (store, storage) = (Fake::default(), Storage::memory());
    let done = ingest_input(&store, &storage, bytes, named(name), &told, small()).await;
    Taken { store, storage, done }
}

impl Taken {
    fn done(&self) -> &Ingested {
        self.done.as_ref().unwrap()
    }

    fn head(&self) -> Head {
        Head::from_text(self.done().file.head.as_ref().unwrap()).unwrap()
    }

    /// The rows as they are read: cells printed, or the code of what is wrong.
    fn rows(&self) -> Vec<(u64, Vec<String>)> {
        let head = self.head();
        let rows = self.store.lines().into_iter().filter(|line| line.lane.is_some());
        rows.map(|line| match read_row(&head, &line.raw) {
            Ok(cells) => (line.line, cells.iter().map(Cell::to_string).collect()),
            Err(error) => (line.line, vec![error.code.to_owned()]),
        })
        .collect()
    }

    fn codes(&self) -> Vec<(String, Option<u64>)> {
        self.done().errors.iter().map(|error| (error.code.clone(), error.line)).collect()
    }

    async fn original(&self) -> Vec<u8> {
        use futures_util::TryStreamExt as _;
        let original = self.done().file.original.clone().unwrap();
        let pieces = self.storage.read(&original.place).await.unwrap();
        let pieces: Vec<bytes::Bytes> = pieces.try_collect().await.unwrap();
        pieces.concat()
    }
}

fn row(number: u64, cells: &[&str]) -> (u64, Vec<String>) {
    (number, cells.iter().map(|cell| (*cell).to_owned()).collect())
}

const TABLE: &str = "\u{feff}Product Name,price\r\n\r\n\"a, \"\"b\"\"\nc\",007\r\nragged\r\nd,\r\n";

#[tokio::test]
async fn a_csv_is_kept_exactly_and_read_row_by_row() {
    let taken = take("a.csv", TABLE.as_bytes(), InputOptions::default()).await;
    assert_eq!(taken.store.bytes(), TABLE.as_bytes());
    assert_eq!((taken.done().file.state, taken.done().file.lines), (FileState::Sealed, 3));
    let wanted = [row(3, &["a, \"b\"\nc", "007"]), row(4, &["row_ragged"]), row(5, &["d", ""])];
    assert_eq!(taken.rows(), wanted);
    let warning = &taken.done().warnings[0];
    assert_eq!((warning.line, warning.param.as_deref()), (Some(4), Some("price")));
    let columns = taken.head().columns();
    assert_eq!(columns.names().collect::<Vec<_>>(), ["product_name", "price"]);
    assert_eq!(taken.store.targets(), [windrow_domain::ids::NO_MODEL]);
}

#[tokio::test]
async fn a_header_may_stand_further_down_or_nowhere() {
    let text = b"report of May\n\nid;name\n1;x\n";
    let told = InputOptions { header: Some(3), delimiter: Some(';'), ..InputOptions::default() };
    let taken = take("a.csv", text, told).await;
    assert_eq!((taken.rows(), taken.head().header_row), (vec![row(4, &["1", "x"])], Some(3)));
    let told = InputOptions { header: Some(0), ..InputOptions::default() };
    let taken = take("a.csv", b"1,x\n2,y\n", told).await;
    assert_eq!(taken.rows(), [row(1, &["1", "x"]), row(2, &["2", "y"])]);
    let names: Vec<String> = taken.head().columns().names().map(str::to_owned).collect();
    assert_eq!(names, ["column_1", "column_2"]);
    for (text, header) in [(&b"a,b\n1,2\n"[..], 7), (b"a,b\n\n1,2\n", 2)] {
        let told = InputOptions { header: Some(header), ..InputOptions::default() };
        let taken = take("a.csv", text, told).await;
        assert_eq!(taken.codes(), [("header_missing".to_owned(), Some(header))]);
    }
}

#[tokio::test]
async fn an_open_quote_and_an_empty_file_are_named() {
    let text = b"id,name\n1,ok\n2,\"open\n3,x\n";
    let taken = take("a.csv", text, InputOptions::default()).await;
    assert_eq!(taken.codes(), [("open_quote".to_owned(), Some(3))]);
    let message = &taken.done().errors[0].message;
    assert!(message.contains("row 3, column 2 (name)"), "{message}");
    assert_eq!((taken.done().file.state, taken.store.bytes()), (FileState::Invalid, text.to_vec()));
    let long = [&b"id,name\n2,\""[..], &[b'x'; 9000]].concat();
    let taken = take("a.csv", &long, InputOptions::default()).await;
    assert_eq!(taken.codes(), [("open_quote".to_owned(), Some(2))], "bounded");
    assert_eq!(taken.store.bytes(), long);
    for text in [&b"id,name\n"[..], b"id,name\r\n\r\n", b"\n\n"] {
        let taken = take("a.csv", text, InputOptions::default()).await;
        assert_eq!(taken.codes(), [("empty_file".to_owned(), None)]);
    }
}

#[tokio::test]
async fn other_encodings_read_the_same_and_utf_16_keeps_its_original() {
    let text = "id,näme\n1,größe\n";
    let utf16: Vec<u8> =
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = text.chars().map(|letter| u8::try_from(letter).unwrap()).collect();
    for (bytes, decoded) in [(&utf16, true), (&latin, false)] {
        let taken = take("a.csv", bytes, InputOptions::default()).await;
        assert_eq!(taken.rows(), [row(2, &["1", "größe"])]);
        assert_eq!(taken.head().headers, ["id", "näme"]);
        assert_eq!(taken.done().file.original.is_some(), decoded);
        if decoded {
            assert_eq!(taken.original().await, *bytes);
        } else {
            assert_eq!(taken.store.bytes(), *bytes);
        }
    }
    let told = InputOptions { encoding: Some("shift_jis".to_owned()), ..InputOptions::default() };
    let taken = take("a.csv", b"id,x\n1,\x83\x5c\n2,\x83\n", told).await;
    assert_eq!(taken.rows(), [row(2, &["1", "ソ"]), row(3, &["row_encoding"])]);
}

#[tokio::test]
async fn packed_rows_are_unpacked_and_their_original_is_kept() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(TABLE.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let taken = take("a.csv.gz", &gzip, InputOptions::default()).await;
    assert_eq!(taken.rows().len(), 3);
    assert_eq!(
        (taken.store.bytes(), taken.original().await),
        (TABLE.as_bytes().to_vec(), gzip.clone())
    );
    let cut = take("a.csv.gz", &gzip[..gzip.len() - 9], InputOptions::default()).await;
    assert!(matches!(cut.done, Err(Error::Read { .. })), "{:?}", cut.done);
    assert!(cut.store.is_dropped());
    assert_eq!(cut.storage.list("inputs", 10).await.unwrap(), [], "nothing is left");
}

#[tokio::test]
async fn lines_of_json_are_rows_unless_they_are_requests() {
    let text = b"{\"sku\":1,\"name\":\"x\"}\n\noops\n{\"name\":\"y\",\"new\":[1]}\n";
    let taken = take("a.jsonl", text, InputOptions::default()).await;
    let wanted = [row(1, &["1", "x", ""]), row(3, &["row_invalid"]), row(4, &["", "y", "[1]"])];
    assert_eq!((taken.rows(), taken.store.bytes()), (wanted.to_vec(), text.to_vec()));
    assert_eq!(taken.done().warnings_total, 1);
    let line = br#"{"custom_id":"a","method":"POST","url":"/v1/x","body":{"model":"m"}}"#;
    let taken = take("a.jsonl", line, InputOptions::default()).await;
    assert_eq!((taken.done().head.clone(), taken.store.targets()), (None, vec!["m".to_owned()]));
}

fn workbook() -> Vec<u8> {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet();
    sheet.set_name("Prices").unwrap();
    for (column, name) in (0..).zip(["Product Name", "price", "when", "ok"]) {
        sheet.write(2, column, name).unwrap();
    }
    sheet.write(3, 0, "007").unwrap();
    sheet.write(3, 1, 12.0).unwrap();
    let date = Format::new().set_num_format("yyyy-mm-dd");
    let day = ExcelDateTime::from_ymd(2024, 2, 29).unwrap();
    sheet.write_with_format(3, 2, &day, &date).unwrap();
    sheet.write(3, 3, true).unwrap();
    sheet.write(9, 1, 0.5).unwrap();
    sheet.write(10, 0, "x").unwrap();
    sheet.write(10, 7, "far").unwrap();
    workbook.add_worksheet().set_name("Other").unwrap().write(0, 0, "only").unwrap();
    workbook.save_to_buffer().unwrap()
}

#[tokio::test]
async fn a_sheet_is_read_with_its_numbers_dates_and_gaps() {
    let bytes = workbook();
    let taken = take("a.xlsx", &bytes, InputOptions::default()).await;
    let wanted = [
        row(4, &["007", "12", "2024-02-29", "true"]),
        row(10, &["", "0.5", "", ""]),
        row(11, &["row_ragged"]),
    ];
    assert_eq!(taken.rows(), wanted, "{:?}", taken.done);
    let head = taken.head();
    assert_eq!((head.format, head.sheet.as_deref()), (RowFormat::Xlsx, Some("Prices")));
    assert_eq!(taken.original().await, bytes);
    let told = InputOptions { sheet: Some("None".to_owned()), ..InputOptions::default() };
    let taken = take("a.xlsx", &bytes, told).await;
    assert_eq!(taken.codes(), [("no_such_sheet".to_owned(), None)]);
    assert!(taken.done().errors[0].message.contains("\"Prices\", \"Other\""));
    let told = InputOptions { sheet: Some("Other".to_owned()), ..InputOptions::default() };
    assert_eq!(take("a.xlsx", &bytes, told).await.codes()[0].0, "empty_file");
}

/// An archive of entries, packed.
fn archive(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The parts of a workbook, with one of them exchanged.
fn workbook_with(name: &str, content: &[u8]) -> Vec<u8> {
    let mut parts = zip::ZipArchive::new(Cursor::new(workbook())).unwrap();
    let mut all = Vec::new();
    for index in 0..parts.len() {
        let mut part = parts.by_index(index).unwrap();
        let part_name = part.name().unwrap().into_owned();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut part, &mut bytes).unwrap();
        all.push((part_name, bytes));
    }
    all.retain(|(part, _)| part != name);
    all.push((name.to_owned(), content.to_vec()));
    let all: Vec<(&str, &[u8])> =
        all.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    archive(&all, CompressionMethod::Deflated)
}

#[tokio::test]
async fn workbooks_made_to_do_harm_are_refused_with_a_sentence() {
    let sheet = |cells: &str| format!("<worksheet><sheetData>{cells}</sheetData></worksheet>");
    let lying = b"<sst uniqueCount=\"99999999999\"><si><t>x</t></si></sst>".to_vec();
    let hidden = b"<sst a=\">\" uniqueCount=\"99999999999\"></sst>".to_vec();
    let wide = sheet(&format!(
        "<row><c t=\"inlineStr\"><is>{}</is></c></row>",
        "<t>xxxxxxxx</t>".repeat(100_000)
    ));
    let raw = sheet("<row><c><![CDATA[<c>]]></c></row>");
    let empty = sheet(&"<row></row>".repeat(1_000_000));
    for (name, content, code) in [
        ("xl/sharedStrings.xml", lying, "workbook_too_large"),
        ("xl/sharedStrings.xml", hidden, "workbook_too_large"),
        ("xl/worksheets/sheet1.xml", wide.into_bytes(), "workbook_too_large"),
        ("xl/worksheets/sheet1.xml", raw.into_bytes(), "workbook_too_large"),
        ("xl/worksheets/sheet1.xml", empty.into_bytes(), "empty_file"),
        ("xl/worksheets/sheet1.xml", b"<worksheet><sheetData><row><c".to_vec(), "invalid_workbook"),
        ("xl/vbaProject.bin", b"x".to_vec(), "macros"),
    ] {
        let taken = take("a.xlsx", &workbook_with(name, &content), InputOptions::default()).await;
        assert_eq!(taken.codes(), [(code.to_owned(), None)], "{name}: {:?}", taken.done);
        assert_eq!(taken.done().file.state, FileState::Invalid);
    }
    for bytes in [&b"PK\x03\x04 and nothing else"[..], &workbook()[..2000]] {
        let taken = take("a.xlsx", bytes, InputOptions::default()).await;
        assert_eq!(taken.codes(), [("invalid_archive".to_owned(), None)]);
    }
    let encrypted = take("a.xlsx", b"\xD0\xCF\x11\xE0....", InputOptions::default()).await;
    assert!(matches!(encrypted.done, Err(Error::WrongKind(_))));
}

fn photo(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let image: DynamicImage = RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([u8::try_from(x % 256).unwrap(), u8::try_from(y % 256).unwrap(), 9])
    })
    .into();
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

#[tokio::test]
async fn pictures_are_rows_and_are_scaled_when_they_are_wanted() {
    let (jpeg, png) = (photo(800, 600, ImageFormat::Jpeg), photo(40, 30, ImageFormat::Png));
    let entries: &[(&str, &[u8])] = &[
        ("shop/a.jpg", &jpeg),
        ("__MACOSX/shop/._a.jpg", b"left behind"),
        ("shop/b.png", &png),
        ("shop/c.png", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("../d.jpg", &jpeg),
    ];
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let bytes = archive(entries, method);
        let taken = take("photos.zip", &bytes, InputOptions::default()).await;
        let (first, second) = (jpeg.len().to_string(), png.len().to_string());
        let wanted = [
            row(1, &["shop/a.jpg", "800", "600", &first, "image/jpeg", ""]),
            row(2, &["shop/b.png", "40", "30", &second, "image/png", ""]),
            row(3, &["not_a_picture"]),
            row(4, &["not_a_picture"]),
        ];
        assert_eq!(taken.rows(), wanted);
        assert!(taken.done().warnings[0].message.contains("SVG"), "{:?}", taken.done().warnings);

        let pictures = Pictures::new(taken.storage.clone());
        let place = taken.done().file.original.clone().unwrap().place;
        let line = taken.store.lines()[0].clone();
        let picture = Picture::read(&line.raw).unwrap();
        let scaled = pictures.scaled(&place, 1, &picture, Some(200)).await.unwrap();
        let image = image::load_from_memory(&scaled.bytes).unwrap();
        assert_eq!((scaled.mime, image.width(), image.height()), ("image/jpeg", 200, 150));
        assert!(taken.storage.size(&thumbnail_name(&place, 1)).await.unwrap() > 0, "made once");
        let small = pictures.thumbnail(&place, 1, &picture).await.unwrap();
        assert_eq!(image::load_from_memory(&small).unwrap().width(), 256);
        let whole = pictures.scaled(&place, 1, &picture, None).await.unwrap();
        assert_eq!(whole.bytes, jpeg);
    }
}

#[tokio::test]
async fn several_pictures_become_one_archive_and_one_alone_does_too() {
    let (jpeg, storage, store) =
        (photo(64, 48, ImageFormat::Jpeg), Storage::memory(), Fake::default());
    let file = named("photos");
    let mut pictures = PictureArchive::create(&storage, file.id, 1 << 30).unwrap();
    for name in ["a.jpg", "b.jpg"] {
        pictures.add(name, &jpeg[..]).await.unwrap();
    }
    let done = ingest_pictures(&store, &storage, pictures, file, small()).await.unwrap();
    assert_eq!((done.file.lines, done.warnings_total), (2, 0), "{:?}", done.warnings);
    let line = store.lines()[1].clone();
    let picture = Picture::read(&line.raw).unwrap();
    let place = done.file.original.unwrap().place;
    let whole = Pictures::new(storage).scaled(&place, 2, &picture, None).await.unwrap();
    assert_eq!(whole.bytes, jpeg);

    let taken = take("one.jpg", &jpeg, InputOptions::default()).await;
    assert_eq!(taken.rows()[0].1[..3], ["one.jpg", "64", "48"]);
}

#[tokio::test]
async fn a_zip_bomb_and_an_archive_without_pictures_are_refused() {
    let zeros = vec![0; 80 << 20];
    let bomb = archive(&[("a.bmp", &zeros)], CompressionMethod::Deflated);
    let taken = take("a.zip", &bomb, InputOptions::default()).await;
    assert_eq!(taken.codes(), [("archive_too_large".to_owned(), None)]);
    let none = archive(&[(".DS_Store", b"x")], CompressionMethod::Stored);
    assert_eq!(take("a.zip", &none, InputOptions::default()).await.codes()[0].0, "empty_file");
}

#[tokio::test]
async fn a_file_that_was_cut_wrongly_is_cut_again() {
    let store = SqliteStore::open(windrow_store_sqlite::Options::default()).await.unwrap();
    let storage = Storage::memory();
    let text = b"a;b\n1;2,5\n2;3,5\n";
    let told = InputOptions { delimiter: Some(','), ..InputOptions::default() };
    let file = named("a.csv");
    let scope = Scope::Owner(file.owner.clone());
    let wrong = ingest_input(&store, &storage, &text[..], file, &told, small()).await.unwrap();
    assert_eq!(wrong.warnings_total, 2);
    let stored = store.file(&scope, wrong.file.id).await.unwrap();
    let told = InputOptions::default();
    let right = recut(&store, &storage, &stored, &told, small()).await.unwrap();
    assert_eq!((right.warnings_total, right.file.lines), (0, 2));
    assert_ne!(right.file.id, wrong.file.id);
    let sheet =
        ingest_input(&store, &storage, &workbook()[..], named("a.xlsx"), &told, Options::default())
            .await
            .unwrap();
    let told = InputOptions { header: Some(0), ..InputOptions::default() };
    let stored = store.file(&scope, sheet.file.id).await.unwrap();
    let again = recut(&store, &storage, &stored, &told, Options::default()).await.unwrap();
    assert_eq!((sheet.file.lines, again.file.lines), (3, 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any bytes at all, said to be CSV, are kept exactly, whatever becomes of them.
    #[test]
    fn any_bytes_as_csv_read_back_exactly(
        bytes in prop::collection::vec(prop_oneof![
            Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(0xEF), any::<u8>()
        ], 0..300),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = InputOptions {
            format: Some(RowFormat::Csv),
            encoding: Some("utf-8".to_owned()),
            delimiter: Some(','),
            ..InputOptions::default()
        };
        let taken = runtime.block_on(take("a", &bytes, told));
        if taken.done.is_ok() {
            prop_assert_eq!(taken.store.bytes(), bytes);
        }
    }
}
