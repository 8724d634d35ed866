//! `sweep`: the rows that the project's tuning tables can express for its bench cases, as `kernels tune` tries them.

use anyhow::Result;

use super::{Answer, Asked};
use crate::search::event::Caught;
use crate::tune;

/// The row of the plan's number, in the parent's table.
pub(super) fn answer(asked: &Asked) -> Result<Answer> {
    let changes = tune::sweep(&asked.desk.task.project, asked.desk.state.run.arch)?;
    let Some(change) = changes.get(asked.plan.sample as usize) else {
        return Ok(Answer::free(Err(vec![Caught::public("no-answer", "no further row can be tried")]), String::new()));
    };
    let file = change.file.to_string_lossy().into_owned();
    let thought = format!("{} in the place of {}", change.row, change.present);
    let applied = asked.parent.get(&file).map(|text| change.apply(text, &[]));
    let sources = match applied {
        None => Err(asked.parent.refusal(&file).into_iter().collect()),
        Some(Err(why)) => Err(vec![Caught::public("not-applicable", format!("{why:#}"))]),
        Some(Ok(applied)) => asked.parent.with([(file, applied.text)].into()),
    };
    Ok(Answer::free(sources, thought))
}
