//! Numbers of the command line within their ranges, refused in words people read.

use std::fmt::Display;
use std::str::FromStr;

use crate::text;

/// A parser of whole numbers from `min` to `max`.
pub(crate) fn whole<T>(min: T, max: T) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr + PartialOrd + Copy + Display + Into<u64> + Send + Sync + 'static,
{
    move |given| {
        let plain = given.replace([',', '_'], "");
        let number = plain.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| match max.into() {
            // Nobody wants to read the largest number that a computer has a name for.
            most if most >= u64::from(u32::MAX) => {
                format!("must be a whole number, at least {}", text::count(min.into()))
            }
            most => format!(
                "must be a whole number from {} to {}",
                text::count(min.into()),
                text::count(most)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_told_in_words() {
        let limit = whole(1_u32, 1000);
        assert_eq!((limit("7"), limit("1_000")), (Ok(7), Ok(1000)));
        assert_eq!(limit("0").unwrap_err(), "must be a whole number from 1 to 1,000");
        assert_eq!(whole(1_u64, u64::MAX)("x").unwrap_err(), "must be a whole number, at least 1");
    }
}
