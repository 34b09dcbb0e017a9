//! Rows and answers for tests.

use windrow_recipe::{Answer, Cell, Columns, Judgement, Meta, Recipe, Request, Row, RowFault};

/// A row of texts under headers; an empty text is an empty cell.
pub(crate) struct Sheet {
    pub(crate) columns: Columns,
    pub(crate) cells: Vec<Cell>,
}

impl Sheet {
    pub(crate) fn new(cells: &[(&str, &str)]) -> Self {
        let headers: Vec<&str> = cells.iter().map(|(header, _)| *header).collect();
        let cells = cells.iter().map(|(_, cell)| match *cell {
            "" => Cell::Empty,
            text => Cell::Text(text.to_owned()),
        });
        Self { columns: Columns::fold(&headers), cells: cells.collect() }
    }

    pub(crate) fn row(&self) -> Row<'_> {
        Row { columns: &self.columns, cells: &self.cells, number: 1, image: None }
    }
}

pub(crate) fn recipe(text: &str) -> Recipe {
    Recipe::parse(text).unwrap_or_else(|complaints| panic!("{complaints}\n{text}"))
}

/// A recipe of one GET with this path.
pub(crate) fn get(path: &str) -> Recipe {
    recipe(&format!("[[try]]\npath = {path:?}"))
}

/// A recipe that gives one column, computed so.
pub(crate) fn column(expression: &str) -> Recipe {
    recipe(&format!("[[try]]\npath = \"/a\"\n[columns]\nc = '''{expression}'''"))
}

pub(crate) fn render(recipe: &Recipe, cells: &[(&str, &str)]) -> Result<Request, RowFault> {
    recipe.render(&Sheet::new(cells).row(), 0)
}

pub(crate) fn body(recipe: &Recipe, cells: &[(&str, &str)]) -> String {
    let request = render(recipe, cells).unwrap();
    String::from_utf8(request.body.unwrap()).unwrap()
}

pub(crate) fn judge(
    recipe: &Recipe,
    strategy: usize,
    cells: &[(&str, &str)],
    status: u16,
    answer: &str,
) -> Judgement {
    let answer = Answer { status, body: answer.as_bytes(), meta: Meta::default() };
    recipe.judge(&Sheet::new(cells).row(), strategy, &answer)
}

/// The columns of an answer with status 200.
pub(crate) fn shaped(recipe: &Recipe, cells: &[(&str, &str)], answer: &str) -> String {
    match judge(recipe, 0, cells, 200, answer) {
        Judgement::Found { shaped, .. } => shaped,
        other => panic!("{other:?}"),
    }
}

/// Everything that is wrong with a recipe, a line each.
pub(crate) fn complaints(text: &str) -> Vec<String> {
    match Recipe::parse(text) {
        Ok(_) => Vec::new(),
        Err(complaints) => complaints.iter().map(ToString::to_string).collect(),
    }
}
