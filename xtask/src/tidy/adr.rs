//! Every decision record can be found from where people begin to read.

use super::Complaint;
use super::tree::Tree;

const FOLDER: &str = "docs/adr/";
const LISTS: [&str; 2] = ["ARCHITECTURE.md", "docs/adr/README.md"];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let lists: Vec<&str> = LISTS.into_iter().filter_map(|path| tree.text(path)).collect();
    let records = tree.files().filter_map(|(path, _)| {
        let name = path.strip_prefix(FOLDER)?;
        (name.ends_with(".md") && name != "README.md").then_some((path, name))
    });
    let unlinked = records.filter(|(_, name)| !lists.iter().any(|text| text.contains(name)));
    let what = "link this record from ARCHITECTURE.md or docs/adr/README.md";
    unlinked.map(|(path, _)| Complaint::new(path, 1, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn a_record_that_nothing_links_is_found() {
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", "[one](docs/adr/0001-one.md)"),
            ("docs/adr/README.md", "[two](0002-two.md)"),
            ("docs/adr/0001-one.md", ""),
            ("docs/adr/0002-two.md", ""),
            ("docs/adr/0003-three.md", ""),
        ]);
        assert_eq!(lines(check(&tree)), ["docs/adr/0003-three.md:1"]);
    }
}
