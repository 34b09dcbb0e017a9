//! Suggests the known word that is most similar to a mistyped one.

/// The word of `known` with the fewest changes, if they are few.
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = known.into_iter().map(|other| (changes(word, other), other));
    let (fewest, found) = known.min_by_key(|(changes, _)| *changes)?;
    (fewest <= found.len().max(word.len()) / 3).then_some(found)
}

/// Insertions, deletions and replacements from one word to the other.
fn changes(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_a_stranger_is_not() {
        let known = ["claim_min", "claim_max", "poll_ms"];
        assert_eq!(suggest("claim_mx", known), Some("claim_max"));
        assert_eq!(suggest("pol_ms", known), Some("poll_ms"));
        assert_eq!(suggest("colour", known), None);
        assert_eq!((changes("", "ab"), changes("kitten", "sitting")), (2, 3));
    }
}
