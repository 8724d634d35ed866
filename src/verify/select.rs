//! Which cases of an operation are verified or timed.

use std::collections::BTreeMap;

use anyhow::Result;

use super::random::Random;
use crate::project::{Case, CaseSet, Inputs, Operation};
use crate::worker::Choice;

/// The launches of a case that are compared with the oracle, each with inputs of its own.
pub(super) const COMPARED: [usize; 3] = [0, 2, 3];
/// The launch with the inputs of the first one and another poison: its outputs are compared with those of the first.
pub(super) const AGAIN: usize = 1;

/// Slots of this size, but for those of the bench's shapes, have fewer inputs: small cases show what depends on the inputs alone.
const FEWER: u64 = 1 << 21;
/// Slots of this size are drawn on several threads. Those of the bench's shapes have one set of inputs: the bench draws others for each
/// round, and compares slots of them as well.
pub(super) const LARGE: u64 = 1 << 24;

/// How often a case whose slot has so many bytes is launched. `timed`: it was added because the bench times its shape. `hears`: what its
/// launches leave is compared with what another path left.
pub(super) fn launches(bytes: u64, timed: bool, hears: bool) -> usize {
    match bytes {
        FEWER.. if hears => 1,
        _ if hears => 2,
        LARGE.. if timed => 2,
        FEWER.. if !timed || bytes >= LARGE => 3,
        _ => 4,
    }
}

/// The numbers of those launches; where they are compared with another path's, of different inputs, and drawn anew each time.
pub(super) fn numbers(bytes: u64, timed: bool, hears: bool) -> Vec<usize> {
    let launches = launches(bytes, timed, hears);
    if !hears {
        return (0..launches).collect();
    }
    let random = &mut Random::unforeseen();
    let mut some = COMPARED[..=launches].to_vec();
    random.shuffle(&mut some);
    some.truncate(launches);
    some.sort_unstable();
    if some[0] == COMPARED[0] && random.below(2) == 0 {
        some[0] = AGAIN;
    }
    some
}

impl Choice {
    /// The cases of an operation, from one of its lists, that the options choose.
    pub(crate) fn cases(&self, operation: &Operation, sets: &[CaseSet], seed: u64) -> Result<Vec<Case>> {
        let mut cases = if self.shapes.is_empty() {
            operation.cases(sets, seed)?
        } else {
            let mut named = Vec::new();
            for shape in &self.shapes {
                for dtype in &operation.dtypes {
                    named.push(operation.case_of_shape(shape, *dtype)?);
                }
            }
            named
        };
        cases.retain(|case| self.dtypes.is_empty() || self.dtypes.contains(&case.dtype));
        if let Some(text) = &self.filter {
            cases.retain(|case| operation.name.contains(text.as_str()) || case.label.contains(text.as_str()));
        }
        Ok(cases)
    }

    /// Whether neither `--shape` nor `--filter` restricts the cases.
    pub(super) fn is_whole(&self) -> bool {
        self.shapes.is_empty() && self.filter.is_none()
    }
}

/// A case to be verified.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) case: Case,
    /// Whether it was added because the bench times its shape.
    pub(super) timed: bool,
    /// The run that is repeated outside of capture, if any.
    pub(super) direct: Option<usize>,
}

/// The cases to verify: those of kernel.toml, those with NaN and infinity among the inputs, and, with `timed`, the shapes that the
/// bench times and kernel.toml does not verify. `random` makes the choices that the candidate's process must not know.
pub(super) fn verified(
    choice: &Choice,
    operation: &Operation,
    (seed, timed): (u64, bool),
    random: &mut Random,
) -> Result<Vec<Chosen>> {
    let mut cases = choice.cases(operation, &operation.verify, seed)?;
    let mut shapes = Vec::new();
    if choice.shapes.is_empty() {
        cases.extend(choice.cases(operation, &non_finite_sets(operation), seed)?);
        if timed {
            shapes = choice.cases(operation, &operation.bench, seed)?;
            shapes.retain(|shape| !cases.iter().any(|case| is_same(case, shape)));
            for shape in &mut shapes {
                shape.label = format!("timed: {}", shape.label);
            }
        }
    }
    let count = cases.len();
    cases.extend(shapes);
    let direct = direct(&cases, random);
    let chosen = cases.into_iter().zip(direct).enumerate();
    Ok(chosen.map(|(index, (case, direct))| Chosen { case, timed: index >= count, direct }).collect())
}

fn is_same(one: &Case, other: &Case) -> bool {
    (one.dtype, one.inputs, &one.values, &one.offsets) == (other.dtype, other.inputs, &other.values, &other.offsets)
}

/// The tables whose sizes are verified with NaN and infinity among the inputs: those that vary the kinds of inputs or
/// draw sizes, or the first table if there are none.
fn non_finite_sets(operation: &Operation) -> Vec<CaseSet> {
    if operation.finite_only.is_some() {
        return Vec::new();
    }
    let varies = |set: &&CaseSet| set.draw.is_some() || set.inputs.iter().any(|inputs| *inputs != Inputs::Normal);
    let mut sets: Vec<&CaseSet> = operation.verify.iter().filter(varies).collect();
    if sets.is_empty() {
        sets.extend(operation.verify.first());
    }
    let of = |set: &CaseSet| CaseSet { inputs: vec![Inputs::NonFinite], ..set.clone() };
    sets.into_iter().map(of).collect()
}

/// In addition to one case of every group, one case in so many is launched outside of capture as well.
const DIRECT: u64 = 8;

/// Which cases are launched outside of capture as well, and on the slot of which run: at least one for each table of
/// cases, dtype and kind of inputs. The choice is random, and the candidate's process cannot know it.
fn direct(cases: &[Case], random: &mut Random) -> Vec<Option<usize>> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        let table = case.label.split_once(": ").map_or("", |(table, _)| table);
        groups.entry((table, case.dtype, case.inputs)).or_default().push(index);
    }
    let pick = |random: &mut Random, count: usize| usize::try_from(random.below(count as u64)).unwrap_or(0);
    let mut chosen: Vec<bool> = cases.iter().map(|_| random.below(DIRECT) == 0).collect();
    for group in groups.values() {
        chosen[group[pick(random, group.len())]] = true;
    }
    chosen.into_iter().map(|chosen| chosen.then(|| COMPARED[pick(random, COMPARED.len())])).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TOML: &str = r#"
format = 1
[[operation]]
name = "copy"
launcher = "copy_launch"
oracle = "transpose"
dtypes = ["bf16", "f32"]
bytes = "rows"
flops = "0"
arguments = [
  { tensor = "x", role = "input", shape = ["rows"] },
  { tensor = "out", role = "output", shape = ["rows"] },
  { dtype = { bf16 = 0, f32 = 1 } },
  { stream = true },
]
[[operation.verify]]
name = "sizes"
rows = [1, 2, 3, 4, 5, 6, 7, 8, 9]
[[operation.verify]]
name = "inputs"
rows = [7, 9]
inputs = ["wide", "tiny"]
[[operation.bench]]
name = "large"
rows = [9, 4096]
"#;

    fn operation(more: &str) -> Operation {
        let text = TOML.replace("flops", &format!("{more}\nflops"));
        crate::project::Project::of(&text).unwrap().spec.operations.remove(0)
    }

    #[test]
    fn a_case_has_the_launches_of_its_size_and_any_of_them_can_be_compared_with_another_path() {
        let all = |bytes, hears| (0..500).map(|_| numbers(bytes, false, hears)).collect::<BTreeSet<_>>();
        let of = |some: &[&[usize]]| some.iter().map(|some| some.to_vec()).collect::<BTreeSet<_>>();
        for (bytes, alone, heard) in [
            (FEWER - 1, [0, 1, 2, 3].as_slice(), of(&[&[0, 2], &[0, 3], &[1, 2], &[1, 3], &[2, 3]])),
            (FEWER, &[0, 1, 2], of(&[&[0], &[1], &[2]])),
            (LARGE, &[0, 1, 2], of(&[&[0], &[1], &[2]])),
        ] {
            assert_eq!((all(bytes, false), all(bytes, true)), (of(&[alone]), heard), "{bytes}");
        }
        let timed = |bytes| launches(bytes, true, false);
        assert_eq!([timed(FEWER - 1), timed(LARGE - 1), timed(LARGE)], [4, 4, 2]);
    }

    #[test]
    fn options_choose_by_name_or_label_by_shape_and_by_type() {
        let operation = operation("");
        let labels = |choice: &Choice| {
            let cases = choice.cases(&operation, &operation.bench, 1).unwrap();
            cases.into_iter().map(|case| case.label).collect::<Vec<_>>()
        };
        let all = ["large: rows=9 bf16", "large: rows=9 f32", "large: rows=4096 bf16", "large: rows=4096 f32"];
        let whole = Choice::default();
        assert!(whole.is_whole());
        let mut found = labels(&whole);
        found.sort_by_key(|label| all.iter().position(|one| one == label));
        assert_eq!(found, all);
        let by = |filter: &str| Choice { filter: Some(filter.to_owned()), ..Choice::default() };
        assert!(!by("copy").is_whole());
        assert_eq!(labels(&by("copy")).len(), 4);
        assert_eq!(labels(&by("rows=4096 f")), [all[3]]);
        assert!(labels(&by("softmax")).is_empty());
        let f32 = Choice { dtypes: vec![crate::project::DType::F32], ..Choice::default() };
        assert_eq!(labels(&f32).len(), 2);
        let shape = Choice { shapes: vec!["rows=3".parse().unwrap()], ..f32 };
        assert!(!shape.is_whole());
        assert_eq!(labels(&shape), ["rows=3 f32"]);
    }

    #[test]
    fn every_table_dtype_and_kind_of_inputs_has_a_launch_outside_of_capture() {
        let operation = operation("");
        let cases = operation.cases(&operation.verify, 1).unwrap();
        let mut seen = vec![0; cases.len()];
        for seed in 0..200 {
            let chosen = direct(&cases, &mut Random::new(seed, 0));
            let groups = |wanted: &dyn Fn(usize) -> bool| {
                let of = (0..cases.len()).filter(|index| wanted(*index));
                of.map(|index| (cases[index].label.split(' ').next(), cases[index].dtype, cases[index].inputs))
                    .collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(groups(&|index| chosen[index].is_some()), groups(&|_| true));
            for (seen, chosen) in seen.iter_mut().zip(&chosen) {
                *seen += usize::from(chosen.is_some());
                assert!(chosen.is_none_or(|run| COMPARED.contains(&run)));
            }
        }
        assert!(seen.iter().all(|times| (10..190).contains(times)), "not drawn: {seen:?}");
    }

    #[test]
    fn non_finite_inputs_and_timed_shapes_are_added_and_can_be_declined_for_a_reason() {
        let chosen = |operation: &Operation, timed| {
            let random = &mut Random::new(1, 1);
            verified(&Choice::default(), operation, (7, timed), random).unwrap()
        };
        let labels = |all: &[Chosen], wanted: fn(&Chosen) -> bool| {
            all.iter().filter(|one| wanted(one)).map(|one| one.case.label.clone()).collect::<Vec<_>>()
        };
        let all = chosen(&operation(""), true);
        let non_finite = labels(&all, |one| one.case.inputs == Inputs::NonFinite);
        assert_eq!(
            non_finite,
            ["inputs: rows=7 non-finite bf16", "inputs: rows=7 non-finite f32"]
                .into_iter()
                .chain(["inputs: rows=9 non-finite bf16", "inputs: rows=9 non-finite f32"])
                .collect::<Vec<_>>()
        );
        // Nine rows are verified already.
        let timed = labels(&all, |one| one.timed);
        assert_eq!(timed, ["timed: large: rows=4096 bf16", "timed: large: rows=4096 f32"]);
        assert!(labels(&chosen(&operation(""), false), |one| one.timed).is_empty());
        let declined = operation("finite_only = \"maxima drop NaN here\"");
        assert!(labels(&chosen(&declined, true), |one| one.case.inputs == Inputs::NonFinite).is_empty());
    }
}
