//! One row of the cases: every name with a value; and how a table of cases becomes rows.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use super::draw::Draw;
use super::formula::{Formula, listed};
use super::names::{CaseValue, Resolver};
use super::spec::Refusal;
use super::{CaseError, CaseSet, DType, Operation, Values};

/// The most cases that one list of tables may give.
pub(crate) const MOST_CASES: u64 = 20_000;

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
    /// Normal, with the type's least finite number, which masks write, at a third of the elements, and in every third row whole.
    Masked,
    /// Normal, with NaN and infinity at a few places of each tensor. Not for kernel.toml: a verification adds such cases.
    NonFinite,
}

impl Inputs {
    /// All kinds that kernel.toml may name.
    pub(crate) const ALL: [Self; 7] =
        [Self::Normal, Self::Wide, Self::Tiny, Self::Sparse, Self::Constant, Self::Spike, Self::Masked];

    /// As `kernel.toml` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Wide => "wide",
            Self::Tiny => "tiny",
            Self::Sparse => "sparse",
            Self::Constant => "constant",
            Self::Spike => "spike",
            Self::Masked => "masked",
            Self::NonFinite => "non-finite",
        }
    }

    /// From its name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
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
    /// How.
    pub refusal: Refusal,
}

impl Case {
    /// A case without label, with tensors that lie even and inputs as usual.
    pub(super) fn new(dtype: DType, values: BTreeMap<String, f64>) -> Self {
        Self {
            label: String::new(),
            dtype,
            values,
            offsets: BTreeMap::new(),
            inputs: Inputs::Normal,
            refused: false,
            refusal: Refusal::default(),
        }
    }
}

impl Values {
    /// How many values of a product it has.
    fn count(&self) -> u64 {
        match self {
            Self::List(list) => list.len() as u64,
            Self::Range(..) | Self::Formula(_) => 1,
        }
    }

    /// Whether a table has several.
    fn varies(&self) -> bool {
        match self {
            Self::List(list) => list.len() > 1,
            Self::Range(first, last) => first != last,
            Self::Formula(_) => false,
        }
    }
}

impl CaseSet {
    /// How many cases it gives for a dtype and a kind of inputs.
    fn rows(&self) -> u64 {
        let product = || self.values.values().map(Values::count).fold(1, u64::saturating_mul);
        self.draw.map_or_else(product, u64::from)
    }

    /// What a row gives to each of its names. The last is the fastest digit of the row's number.
    fn row<'a>(
        &'a self,
        names: &[&'a String],
        row: u64,
        draw: &mut Draw,
    ) -> Result<BTreeMap<&'a str, CaseValue<'a>>, String> {
        let mut given = BTreeMap::new();
        let mut rest = row;
        for name in names.iter().rev() {
            let value = match &self.values[*name] {
                Values::Formula(formula) => CaseValue::Formula(formula),
                Values::List(list) if list.is_empty() => {
                    return Err(format!("`{name}` has no values"));
                }
                Values::List(list) => {
                    let count = list.len() as u64;
                    let at = match self.draw {
                        Some(_) => draw.below(count),
                        None => rest % count,
                    };
                    rest /= count;
                    #[allow(clippy::cast_possible_truncation, reason = "less than the list's length")]
                    CaseValue::Number(list[at as usize])
                }
                #[allow(clippy::cast_precision_loss, reason = "the reader keeps ranges below 2^53")]
                Values::Range(first, last) if self.draw.is_some() => {
                    CaseValue::Number(draw.between(*first, *last) as f64)
                }
                Values::Range(..) => {
                    return Err(format!("`{name}` is a range, and the table does not `draw`"));
                }
            };
            given.insert(name.as_str(), value);
        }
        Ok(given)
    }
}

/// The value of a name as a person types it.
enum CaseText {
    /// Of a type parameter.
    Type(f64),
    /// Of any other name.
    Formula(Formula),
}

/// The code of a type among those that a parameter may stand for.
pub(super) fn type_named(text: &str, types: &[Option<DType>]) -> Result<f64, String> {
    types.iter().map(|dtype| DType::code(*dtype)).find(|code| DType::code_name(*code) == text).ok_or_else(|| {
        let names = types.iter().map(|dtype| dtype.map_or("T", DType::name));
        format!("`{text}` is not among its types; allowed: {}", listed(names))
    })
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
                wrong(format!("expected NAME=VALUE, found `{}`; names: {}", part.trim(), listed(&known)))
            })?;
            let name = name.trim();
            if !known.iter().any(|known| known == name) {
                return Err(
                    wrong(format!("operation `{}` has no `{name}`; names: {}", self.name, listed(&known))).into()
                );
            }
            let value = match self.types.get(name) {
                Some(types) => CaseText::Type(type_named(value.trim(), types).map_err(wrong)?),
                None => CaseText::Formula(Formula::parse(value.trim()).map_err(|error| wrong(error.to_string()))?),
            };
            if given.insert(name, value).is_some() {
                return Err(wrong(format!("`{name}` is given twice")).into());
            }
        }
        let given: BTreeMap<&str, CaseValue<'_>> = given
            .iter()
            .map(|(name, value)| match value {
                CaseText::Type(code) => (*name, CaseValue::Number(*code)),
                CaseText::Formula(formula) => (*name, CaseValue::Formula(formula)),
            })
            .collect();
        let values = self.values_of(&known, &given, dtype).map_err(|error| wrong(error.0))?;
        let mut case = Case::new(dtype, values);
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
                    set.name.as_ref().map_or_else(String::new, |name| format!("with `{name}`, ")),
                )));
            }
        }
        Ok(())
    }

    /// How many cases a table gives.
    fn count(&self, set: &CaseSet) -> u64 {
        let dtypes = if set.dtypes.is_empty() { self.dtypes.len() } else { set.dtypes.len() };
        let times = (dtypes as u64).saturating_mul(set.inputs.len().max(1) as u64);
        times.saturating_mul(set.rows())
    }

    fn rows(&self, set: &CaseSet, draw: &mut Draw, cases: &mut Vec<Case>) -> Result<(), CaseError> {
        let wrong = |message: &str| {
            let name = set.name.as_ref();
            let of = name.map_or_else(String::new, |name| format!(", cases `{name}`"));
            CaseError(format!("operation `{}`{of}: {message}", self.name))
        };
        let known = self.names();
        if let Some(unknown) = set.values.keys().find(|name| !known.contains(name)) {
            return Err(wrong(&format!("no `{unknown}`; names: {}", listed(known))));
        }
        let names: Vec<&String> = known.iter().filter(|name| set.values.contains_key(*name)).collect();
        let dtypes = if set.dtypes.is_empty() { &self.dtypes } else { &set.dtypes };
        let inputs: &[Inputs] = if set.inputs.is_empty() { &[Inputs::Normal] } else { &set.inputs };
        for row in 0..set.rows() {
            for inputs in inputs {
                for dtype in dtypes {
                    let given = set.row(&names, row, draw).map_err(|error| wrong(&error))?;
                    let values = self.values_of(&known, &given, *dtype).map_err(|error| wrong(&error.0))?;
                    let mut case = Case {
                        offsets: set.offsets.clone(),
                        inputs: *inputs,
                        refused: set.refused,
                        refusal: set.refusal.clone(),
                        ..Case::new(*dtype, values)
                    };
                    case.label = self.label(&known, &case, set.name.as_deref(), |name| {
                        set.values.get(name).is_some_and(Values::varies)
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
        given: &BTreeMap<&str, CaseValue<'_>>,
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
    fn label(&self, names: &[String], case: &Case, set: Option<&str>, varies: impl Fn(&str) -> bool) -> String {
        let mut words = Vec::new();
        for name in names {
            let Some(value) = case.values.get(name) else {
                continue;
            };
            let types = self.types.get(name);
            let default = match (types, self.defaults.get(name)) {
                (Some(types), _) => types.first().map(|first| DType::code(*first)),
                (None, Some(formula)) => formula.eval(&case.values, case.dtype).ok(),
                (None, None) => None,
            };
            if default.is_some_and(|default| default.to_bits() == value.to_bits()) && !varies(name) {
                continue;
            }
            words.push(match types {
                Some(_) => format!("{name}={}", DType::code_name(*value)),
                None => format!("{name}={}", number(*value)),
            });
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
            Some(set) => format!("{}: {words}", self.titled(set, case)),
            None => words,
        }
    }

    /// The name of a set with the values of a case in it.
    fn titled(&self, set: &str, case: &Case) -> String {
        let mut title = String::new();
        let mut end = 0;
        for (name, part) in placeholders(set) {
            title.push_str(&set[end..part.start]);
            end = part.end;
            match case.values.get(name) {
                Some(value) if self.types.contains_key(name) => title.push_str(DType::code_name(*value)),
                Some(value) => title.push_str(&number(*value)),
                None => title.push_str(&set[part]),
            }
        }
        title + &set[end..]
    }
}

/// `4096`, `0.5`, `1e-6`.
pub(super) fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e16).contains(&value.abs()) { format!("{value:e}") } else { value.to_string() }
}

/// The names in braces, and where they stand, braces included.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    text.match_indices('{').filter_map(|(start, _)| {
        let (name, _) = text[start + 1..].split_once('}')?;
        Some((name, start..start + name.len() + 2))
    })
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
