//! An error for people: what happened, why, and what to do.

use windrow::store::{Error, Kind};

/// The whole message, one cause a line.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        text.push_str(&format!("  because {cause}\n"));
    }
    if let Some(hint) = error.chain().find_map(|cause| cause.downcast_ref()).map(hint) {
        text.push_str(&format!("  {hint}\n"));
    }
    text
}

fn hint(error: &Error) -> &'static str {
    match error.kind {
        Kind::Unavailable => {
            "What to do: check that the database runs, has room, and that --database names it; then try again."
        }
        Kind::Busy | Kind::Contended => {
            "What to do: another process is at work on it; try again in a moment."
        }
        Kind::Missing => "What to do: check the id; it may have been deleted.",
        Kind::Conflict => "What to do: it is there already, or still needed; look at it first.",
        Kind::Refused => "What to do: the batch's state does not allow it; look at its status.",
        Kind::Invalid => "What to do: correct the value that the message names.",
        Kind::LeaseLost => "What to do: another process took over; start again.",
        Kind::Corrupt => {
            "What to do: check that --database names a Windrow database, made by a version that this program knows; `windrow doctor` looks closer."
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn the_causes_and_the_remedy_follow_the_sentence() {
        let store = Error::new(Kind::Unavailable, "open", "database").because("disk full");
        let error = Err::<(), _>(store).context("could not open it").unwrap_err();
        let text = explain(&error);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "error: could not open it");
        assert_eq!(lines[1], "  because could not open database: unavailable");
        assert_eq!(lines[2], "  because disk full");
        assert!(lines[3].starts_with("  What to do: check that the database runs"));
    }
}
