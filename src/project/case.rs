//! One row of the cases: every name with a value; and how a table of cases becomes rows.

use std::collections::BTreeMap;

use serde::Serialize;

use super::draw::Draw;
use super::formula::{Formula, listed};
use super::names::{Given, Resolver};
use super::{CaseError, CaseSet, DType, Operation, Values};

/// The most cases that one list of tables may give.
pub const MOST_CASES: u64 = 20_000;

/// How the input tensors of a case are drawn.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Inputs {
    /// Standard normal.
    Normal,
    /// Normal, each row at its own power of two from 2^-12 to 2^12 (f16: 2^-8 to 2^6).
    Wide,
    /// Normal times 2^-30 (f16: 2^-14): rows in which an eps dominates.
    Tiny,
    /// Normal with zeros: a third of the elements, and every third row whole.
    Sparse,
    /// Constant rows, each at its own value.
    Constant,
    /// One large element a row among small ones.
    Spike,
}

impl Inputs {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Normal,
        Self::Wide,
        Self::Tiny,
        Self::Sparse,
        Self::Constant,
        Self::Spike,
    ];

    /// As `kernel.toml` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Wide => "wide",
            Self::Tiny => "tiny",
            Self::Sparse => "sparse",
            Self::Constant => "constant",
            Self::Spike => "spike",
        }
    }

    /// From its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|inputs| inputs.name() == name)
    }
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// For people: `rows=128 width=4096 weight=1 bf16`, with the set's name and a colon in front. Names that
    /// have their default are left out.
    pub label: String,
    /// What `T` is.
    pub dtype: DType,
    /// Every name that a case may set, defaults included.
    pub values: BTreeMap<String, f64>,
    /// How far each tensor's first element lies behind a 256-byte boundary, in elements.
    pub offsets: BTreeMap<String, u64>,
    /// How the inputs are drawn.
    pub inputs: Inputs,
    /// Whether the launcher must refuse it.
    pub refused: bool,
}

impl Operation {
    /// All cases of a table, those that are drawn afresh drawn from `seed`: the same seed and tables give the same
    /// cases in the same order on every platform.
    ///
    /// The order: table by table; in each the first name of [`Operation::names`] varies slowest, then the inputs,
    /// then the dtype.
    ///
    /// Errors: a name without a value, a formula without one, more than [`MOST_CASES`] cases.
    pub fn cases(&self, sets: &[CaseSet], seed: u64) -> anyhow::Result<Vec<Case>> {
        self.check_count(sets)?;
        let mut cases = Vec::new();
        for (index, set) in (0..).zip(sets) {
            self.rows(set, &mut Draw::new(seed, index), &mut cases)?;
        }
        Ok(cases)
    }

    /// The case that a person named: `rows=128,width=4096`. A value is a number or a formula.
    ///
    /// Errors: a name that the operation does not know, or that has neither a value here nor a default; a dtype
    /// that is not among the operation's.
    pub fn case_of_shape(&self, shape: &str, dtype: DType) -> anyhow::Result<Case> {
        let wrong = |message: String| CaseError(format!("shape `{shape}`: {message}"));
        if !self.dtypes.contains(&dtype) {
            return Err(wrong(format!(
                "operation `{}` is not for {}, only for {}",
                self.name,
                dtype.name(),
                listed(self.dtypes.iter().map(|dtype| dtype.name()))
            ))
            .into());
        }
        let known = self.names();
        let mut given = BTreeMap::new();
        for part in split(shape) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                wrong(format!(
                    "expected NAME=VALUE, found `{}`; names: {}",
                    part.trim(),
                    listed(&known)
                ))
            })?;
            let name = name.trim();
            if !known.iter().any(|known| known == name) {
                return Err(wrong(format!(
                    "operation `{}` has no `{name}`; names: {}",
                    self.name,
                    listed(&known)
                ))
                .into());
            }
            let value = Formula::parse(value.trim()).map_err(|error| wrong(error.to_string()))?;
            if given.insert(name, value).is_some() {
                return Err(wrong(format!("`{name}` is given twice")).into());
            }
        }
        let given: BTreeMap<&str, Given<'_>> = given
            .iter()
            .map(|(name, formula)| (*name, Given::Formula(formula)))
            .collect();
        let values = self
            .values_of(&known, &given, dtype)
            .map_err(|error| wrong(error.0))?;
        let mut case = Case {
            label: String::new(),
            dtype,
            values,
            offsets: BTreeMap::new(),
            inputs: Inputs::Normal,
            refused: false,
        };
        case.label = self.label(&known, &case, None, |_| false);
        Ok(case)
    }

    /// Refuses tables that give more than [`MOST_CASES`] cases together.
    pub(super) fn check_count(&self, sets: &[CaseSet]) -> Result<(), CaseError> {
        let mut count = 0_u64;
        for set in sets {
            count = count.saturating_add(self.count(set));
            if count > MOST_CASES {
                return Err(CaseError(format!(
                    "operation `{}`: {}more than {MOST_CASES} cases; shorten its lists or `draw` from ranges",
                    self.name,
                    set.name
                        .as_ref()
                        .map_or_else(String::new, |name| format!("with `{name}`, ")),
                )));
            }
        }
        Ok(())
    }

    /// How many cases a table gives.
    fn count(&self, set: &CaseSet) -> u64 {
        let dtypes = if set.dtypes.is_empty() {
            self.dtypes.len()
        } else {
            set.dtypes.len()
        };
        let times = (dtypes as u64).saturating_mul(set.inputs.len().max(1) as u64);
        if let Some(draw) = set.draw {
            return times.saturating_mul(u64::from(draw));
        }
        set.values
            .values()
            .map(|values| match values {
                Values::List(list) => list.len() as u64,
                Values::Range(..) | Values::Formula(_) => 1,
            })
            .fold(times, u64::saturating_mul)
    }

    fn rows(&self, set: &CaseSet, draw: &mut Draw, cases: &mut Vec<Case>) -> Result<(), CaseError> {
        let wrong = |message: &str| {
            CaseError(format!(
                "operation `{}`{}: {message}",
                self.name,
                set.name
                    .as_ref()
                    .map_or_else(String::new, |name| format!(", cases `{name}`"))
            ))
        };
        let known = self.names();
        let names: Vec<&String> = known
            .iter()
            .filter(|name| set.values.contains_key(*name))
            .collect();
        if let Some(unknown) = set.values.keys().find(|name| !known.contains(name)) {
            return Err(wrong(&format!(
                "no `{unknown}`; names: {}",
                listed(self.names())
            )));
        }
        let dtypes = if set.dtypes.is_empty() {
            &self.dtypes
        } else {
            &set.dtypes
        };
        let inputs: &[Inputs] = if set.inputs.is_empty() {
            &[Inputs::Normal]
        } else {
            &set.inputs
        };
        let times = match set.draw {
            Some(times) => u64::from(times),
            None => set
                .values
                .values()
                .map(|values| match values {
                    Values::List(list) => list.len() as u64,
                    Values::Range(..) | Values::Formula(_) => 1,
                })
                .product(),
        };
        for row in 0..times {
            for inputs in inputs {
                for dtype in dtypes {
                    let mut given = BTreeMap::new();
                    // The last name is the fastest digit of the row's number.
                    let mut rest = row;
                    for name in names.iter().rev() {
                        let one = match &set.values[*name] {
                            Values::Formula(formula) => Given::Formula(formula),
                            Values::List(list) if list.is_empty() => {
                                return Err(wrong(&format!("`{name}` has no values")));
                            }
                            Values::List(list) => {
                                let count = list.len() as u64;
                                let at = if set.draw.is_some() {
                                    draw.below(count)
                                } else {
                                    let at = rest % count;
                                    rest /= count;
                                    at
                                };
                                #[allow(
                                    clippy::cast_possible_truncation,
                                    reason = "less than the list's length"
                                )]
                                Given::Number(list[at as usize])
                            }
                            Values::Range(first, last) if set.draw.is_some() =>
                            {
                                #[allow(
                                    clippy::cast_precision_loss,
                                    reason = "the reader keeps ranges below 2^53"
                                )]
                                Given::Number(draw.between(*first, *last) as f64)
                            }
                            Values::Range(..) => {
                                return Err(wrong(&format!(
                                    "`{name}` is a range, and the table does not `draw`"
                                )));
                            }
                        };
                        given.insert(name.as_str(), one);
                    }
                    let values = self
                        .values_of(&known, &given, *dtype)
                        .map_err(|error| wrong(&error.0))?;
                    let mut case = Case {
                        label: String::new(),
                        dtype: *dtype,
                        values,
                        offsets: set.offsets.clone(),
                        inputs: *inputs,
                        refused: set.refused,
                    };
                    case.label = self.label(&known, &case, set.name.as_deref(), |name| {
                        match set.values.get(name) {
                            Some(Values::List(list)) => list.len() > 1,
                            Some(Values::Range(first, last)) => first != last,
                            Some(Values::Formula(_)) | None => false,
                        }
                    });
                    cases.push(case);
                }
            }
        }
        Ok(())
    }

    /// The value of every name that a case may set.
    pub(super) fn values_of(
        &self,
        names: &[String],
        given: &BTreeMap<&str, Given<'_>>,
        dtype: DType,
    ) -> Result<BTreeMap<String, f64>, CaseError> {
        let mut resolver = Resolver::new(self, given, dtype);
        let mut values = BTreeMap::new();
        for name in names {
            values.insert(name.clone(), resolver.value(name)?);
        }
        Ok(values)
    }

    /// What a person needs to tell this case from its neighbours.
    fn label(
        &self,
        names: &[String],
        case: &Case,
        set: Option<&str>,
        varies: impl Fn(&str) -> bool,
    ) -> String {
        let mut words = Vec::new();
        for name in names {
            let Some(value) = case.values.get(name) else {
                continue;
            };
            let default = self.defaults.get(name);
            let is_default = default
                .and_then(|formula| formula.eval(&case.values, case.dtype).ok())
                .is_some_and(|default| default.to_bits() == value.to_bits());
            if !is_default || varies(name) {
                words.push(format!("{name}={}", number(*value)));
            }
        }
        for (tensor, offset) in &case.offsets {
            words.push(format!("{tensor}+{offset}"));
        }
        if case.inputs != Inputs::Normal {
            words.push(case.inputs.name().to_owned());
        }
        words.push(case.dtype.name().to_owned());
        let words = words.join(" ");
        match set {
            Some(set) => format!("{set}: {words}"),
            None => words,
        }
    }
}

/// `4096`, `0.5`, `1e-6`.
pub(super) fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e16).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

/// The parts between commas, those inside parentheses left alone.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut depth = 0_u32;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}
