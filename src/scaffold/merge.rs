//! Applies a change of the scaffold to a file that somebody may have edited.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A change that finds no place in the edited file.
#[derive(Debug, PartialEq)]
pub(super) struct Conflict {
    /// The lines to remove.
    pub(super) gone: Vec<String>,
    /// The lines to add.
    pub(super) added: Vec<String>,
}

/// `mine` with the changes from `old` to `new`. Lines are added beside the lines that surround them in `old`, after the lines
/// that `mine` has there; lines that `mine` has already stay.
pub(super) fn merge(old: &str, new: &str, mine: &str) -> Result<String, Vec<Conflict>> {
    // What follows the last line must start a new line.
    let ended = if mine.ends_with('\n') { mine.to_owned() } else { format!("{mine}\n") };
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
    let (old, new, mine) = (lines(old), lines(new), lines(&ended));
    let place = places(&old, &mine);
    let (mut edits, mut conflicts) = (Vec::new(), Vec::new());
    for change in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (gone, added) = (change.old_range(), &new[change.new_range()]);
        if matches!(change, DiffOp::Equal { .. }) {
            continue;
        }
        // The lines of `mine` between those that surround the change.
        let before = gone.start.checked_sub(1).map_or(Some(0), |line| place[line].map(|line| line + 1));
        let behind = if gone.end == old.len() { Some(mine.len()) } else { place[gone.end] };
        let between = before.zip(behind).map(|(from, to)| &mine[from..to.max(from)]);
        let is_there = |between: &[&str]| !added.is_empty() && between.windows(added.len()).any(|lines| lines == added);
        let own: Option<Vec<usize>> = gone.clone().map(|line| place[line]).collect();
        if between.is_some_and(is_there)
            || !gone.is_empty() && added.is_empty() && between.is_some_and(<[&str]>::is_empty)
        {
            continue;
        }
        match own.as_deref() {
            Some([]) if behind.or(before).is_some() => {
                let at = behind.or(before).unwrap_or_default();
                edits.push((at..at, added));
            }
            Some([first, .., last]) if last - first + 1 == gone.len() => edits.push((*first..last + 1, added)),
            Some([only]) => edits.push((*only..only + 1, added)),
            _ => {
                let owned = |lines: &[&str]| lines.iter().map(|line| line.trim_end().to_owned()).collect();
                conflicts.push(Conflict { gone: owned(&old[gone]), added: owned(added) });
            }
        }
    }
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    let mut merged = mine;
    for (range, added) in edits.into_iter().rev() {
        merged.splice(range, added.iter().copied());
    }
    Ok(merged.concat())
}

/// The position of each line of `old` in `mine`.
fn places(old: &[&str], mine: &[&str]) -> Vec<Option<usize>> {
    let mut place = vec![None; old.len()];
    for same in capture_diff_slices(Algorithm::Myers, old, mine) {
        if let DiffOp::Equal { old_index, new_index, len } = same {
            for at in 0..len {
                place[old_index + at] = Some(new_index + at);
            }
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_goes_to_its_lines_and_no_edit_is_lost() {
        let (old, new) = ("a\nb\nc\n", "a\nb\nx\nc\ny\n");
        assert_eq!(merge(old, new, old).unwrap(), new);
        assert_eq!(merge(old, new, new).unwrap(), new);
        assert_eq!(merge(old, new, "0\na\nb\nmine\nc\nlast\n").unwrap(), "0\na\nb\nmine\nx\nc\nlast\ny\n");
        assert_eq!(merge(old, new, "a\nB\nc\n").unwrap(), "a\nB\nx\nc\ny\n");
        assert_eq!(
            merge("a\nb\n", "a\nc\n", "a\nB\n").unwrap_err(),
            [Conflict { gone: vec!["b".into()], added: vec!["c".into()] }]
        );
        assert_eq!(merge("a\n", "a\nb\n", "a").unwrap(), "a\nb\n");
        assert_eq!(merge("a\nb\n", "a\n", "a\n").unwrap(), "a\n");
        assert_eq!(merge("a\n", "a\nb\n", "nothing of it\n").unwrap(), "nothing of it\nb\n");
    }
}
