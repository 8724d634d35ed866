//! The cases that every operation needs, derived from the shapes and strides of its arguments: sizes on both sides of where
//! layouts change, no elements, gaps between rows, every alignment, every kind of inputs.

use std::collections::{BTreeMap, BTreeSet};

use super::formula::Formula;
use super::spec::{BadPointer, Refusal};
use super::{Argument, CaseSet, DType, Inputs, Operation, Values};

/// The smallest sizes, odd ones among them.
pub(super) const SMALL: [f64; 6] = [1.0, 2.0, 3.0, 7.0, 8.0, 9.0];

/// What a project says of its standard cases.
pub(super) struct Standard {
    /// The values of names that a set of these cases does not vary.
    pub(super) at: BTreeMap<String, Values>,
    /// Sizes, of which the product is one set.
    pub(super) sizes: BTreeMap<String, Values>,
    /// The sizes at which the kinds of inputs are varied, where they differ from `at`.
    pub(super) values: BTreeMap<String, Values>,
    /// The kinds of inputs.
    pub(super) inputs: Vec<Inputs>,
    /// The dtypes; empty: all.
    pub(super) dtypes: Vec<DType>,
    /// Sizes that may be zero.
    pub(super) empty: Vec<String>,
    /// Tensors and strides that stay as they are.
    pub(super) fixed: Vec<String>,
    /// Ranges to draw from.
    pub(super) drawn: BTreeMap<String, Values>,
    /// The launcher's code for each kind of wrong arguments that it tells apart.
    pub(super) refuses: BTreeMap<Wrong, i32>,
    /// The fewest elements by which a stride or an offset may differ.
    pub(super) step: u64,
}

/// Its tables, in the order in which they are run.
pub(super) fn standard_sets(operation: &Operation, standard: &Standard) -> Vec<CaseSet> {
    let mut sets = Vec::new();
    if !standard.sizes.is_empty() {
        sets.push(standard.set("sizes", standard.sizes.clone()));
    }
    sets.extend(standard.empty_sets());
    let strides = strides(operation, &standard.fixed);
    sets.extend(standard.stride_sets(&strides));
    sets.extend(standard.offset_sets(operation));
    sets.push(CaseSet { inputs: standard.inputs.clone(), ..standard.set("inputs", standard.values.clone()) });
    sets.extend(standard.drawn_sets(&strides));
    sets.extend(standard.refused_sets(operation, &strides));
    sets
}

/// What may be wrong with arguments, of any operation.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Wrong {
    /// A negative size.
    Negative,
    /// A code that is no dtype's.
    Dtype,
    /// A null pointer to what is always there.
    Null,
    /// A stride at which rows overlap, or a negative one.
    Stride,
    /// A pointer to no whole element.
    Misaligned,
    /// Sizes or strides that 64 bits do not address.
    Large,
}

impl Wrong {
    pub(super) const ALL: [Self; 6] =
        [Self::Negative, Self::Dtype, Self::Null, Self::Stride, Self::Misaligned, Self::Large];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Negative => "negative",
            Self::Dtype => "dtype",
            Self::Null => "null",
            Self::Stride => "stride",
            Self::Misaligned => "misaligned",
            Self::Large => "large",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wrong| wrong.name() == name)
    }

    /// A word that the text for its code must hold.
    fn word(self) -> &'static str {
        match self {
            Self::Misaligned => "multiple",
            Self::Large => "64-bit",
            _ => self.name(),
        }
    }
}

impl Standard {
    /// A table that gives these values, and those of `at` to other names.
    fn set(&self, name: &str, mut values: BTreeMap<String, Values>) -> CaseSet {
        for (name, at) in &self.at {
            values.entry(name.clone()).or_insert_with(|| at.clone());
        }
        CaseSet {
            name: Some(name.to_owned()),
            values,
            dtypes: self.dtypes.clone(),
            offsets: BTreeMap::new(),
            inputs: Vec::new(),
            draw: None,
            refused: false,
            refusal: Refusal::default(),
        }
    }

    /// Each size zero in turn, then all.
    fn empty_sets(&self) -> Vec<CaseSet> {
        let zero = Values::List(vec![0.0]);
        let mut zeros: Vec<BTreeMap<String, Values>> =
            self.empty.iter().map(|name| BTreeMap::from([(name.clone(), zero.clone())])).collect();
        if zeros.len() > 1 {
            zeros.push(self.empty.iter().map(|name| (name.clone(), zero.clone())).collect());
        }
        let of = |values| first_of(self.set("no elements", values));
        zeros.into_iter().map(of).collect()
    }

    /// Twice a dozen: of the whole ranges, and with sizes and strides of whole 16-byte accesses.
    fn drawn_sets(&self, strides: &[Stride<'_>]) -> Vec<CaseSet> {
        if self.drawn.is_empty() {
            return Vec::new();
        }
        let drawn = CaseSet { draw: Some(12), ..self.set("drawn afresh", self.drawn.clone()) };
        let mut whole = drawn.clone();
        whole.name = Some("drawn afresh, whole accesses".to_owned());
        for (name, values) in &mut whole.values {
            // Sizes of which many are listed are those that layouts depend on.
            let decides = matches!(self.sizes.get(name), Some(Values::List(list)) if list.len() > 8);
            if let (Values::Range(_, last), true) = (&*values, decides) {
                *values = Values::List(whole_accesses(*last));
            }
        }
        if let Some(stride) = strides.last() {
            whole.values.insert(stride.name.to_owned(), stride.changed("+ 16"));
        }
        vec![drawn, whole]
    }

    /// What every launcher refuses, with the codes that the project gives, and what it accepts without a launch.
    fn refused_sets(&self, operation: &Operation, strides: &[Stride<'_>]) -> Vec<CaseSet> {
        let mut sets = Vec::new();
        for (wrong, code) in &self.refuses {
            let mut add = |what: &str, values: BTreeMap<String, Values>, refusal: Refusal| {
                let refusal = Refusal { code: Some(*code), says: Some(wrong.word().to_owned()), ..refusal };
                sets.push(self.refused(&format!("{} {what}", wrong.name()), values, refusal));
            };
            let one = |name: &str, number: f64| BTreeMap::from([(name.to_owned(), Values::List(vec![number]))]);
            match wrong {
                Wrong::Negative => {
                    for name in &self.empty {
                        add(name, one(name, -1.0), Refusal::default());
                    }
                }
                Wrong::Dtype => {
                    for code in [-1, 127] {
                        let refusal = Refusal { dtype_code: Some(code), ..Refusal::default() };
                        add(&code.to_string(), BTreeMap::new(), refusal);
                    }
                }
                Wrong::Null | Wrong::Misaligned => {
                    let pointer = match wrong {
                        Wrong::Null => BadPointer::Null,
                        _ => BadPointer::Beyond(1),
                    };
                    for name in self.pointers(operation, *wrong == Wrong::Null) {
                        let pointers = BTreeMap::from([(name.clone(), pointer)]);
                        add(&name, BTreeMap::new(), Refusal { pointers, ..Refusal::default() });
                    }
                }
                Wrong::Stride => {
                    for stride in strides {
                        let short = BTreeMap::from([(stride.name.to_owned(), stride.changed("- 1"))]);
                        add(&format!("{}, too short", stride.name), short, Refusal::default());
                        add(stride.name, one(stride.name, -64.0), Refusal::default());
                    }
                }
                Wrong::Large => {
                    if let Some(name) = self.empty.first() {
                        add(name, one(name, LARGE), Refusal::default());
                    }
                    for stride in strides {
                        add(stride.name, one(stride.name, LARGE), Refusal::default());
                    }
                }
            }
        }
        if !self.refuses.is_empty() {
            sets.extend(self.nothing_to_do(operation));
        }
        sets
    }

    /// Sizes of zero with null pointers, where nothing is left to write.
    fn nothing_to_do(&self, operation: &Operation) -> Vec<CaseSet> {
        let mut sets = Vec::new();
        for size in &self.empty {
            let mut pointers = BTreeMap::new();
            let mut is_left = false;
            for argument in &operation.arguments {
                if let Argument::Tensor { name, shape, role, present, .. } = argument {
                    let vanishes = shape.iter().any(|formula| formula.names().any(|(name, _)| name == size));
                    is_left |= role.is_result() && !vanishes;
                    // What may be left out says something by being there.
                    if vanishes && present.is_none() {
                        pointers.insert(name.clone(), BadPointer::Null);
                    }
                }
            }
            if !is_left {
                let values = BTreeMap::from([(size.clone(), Values::List(vec![0.0]))]);
                let refusal = Refusal { code: Some(0), pointers, ..Refusal::default() };
                sets.push(self.refused(&format!("nothing to do, {size}"), values, refusal));
            }
        }
        sets
    }

    fn refused(&self, name: &str, values: BTreeMap<String, Values>, refusal: Refusal) -> CaseSet {
        let set = first_of(self.set(name, values));
        CaseSet { refused: true, refusal, ..set }
    }

    /// The tensors whose pointers may be wrong; with `always` those alone that are there in every case.
    fn pointers(&self, operation: &Operation, always: bool) -> Vec<String> {
        let named = operation.arguments.iter().filter_map(|argument| match argument {
            Argument::Tensor { name, present, .. } if !(self.fixed.contains(name) || always && present.is_some()) => {
                Some(name.clone())
            }
            _ => None,
        });
        named.collect()
    }

    /// Gaps that keep rows aligned as they are, gaps that do not, of each stride alone and of all together.
    fn stride_sets(&self, strides: &[Stride<'_>]) -> Vec<CaseSet> {
        let grown = |stride: &Stride<'_>, by: u64| (stride.name.to_owned(), stride.grown(by * self.step));
        let all = |by: fn(u64) -> u64| {
            let grown = (0..).zip(strides).map(|(at, stride)| grown(stride, by(at)));
            grown.collect::<BTreeMap<_, _>>()
        };
        if strides.is_empty() {
            return Vec::new();
        }
        let mut sets = vec![
            self.set("gaps between rows", all(|at| 8 * (at + 1))),
            self.set("rows at every alignment", all(|at| at + 2)),
            self.set("rows two elements off", all(|at| 2 + 4 * at)),
        ];
        sets.extend(strides.iter().map(|stride| {
            let name = format!("{} unaligned", stride.name);
            self.set(&name, BTreeMap::from([grown(stride, 1)]))
        }));
        sets
    }

    /// Each tensor one element behind a boundary, then all of them two.
    fn offset_sets(&self, operation: &Operation) -> Vec<CaseSet> {
        let tensors: Vec<&String> = operation
            .arguments
            .iter()
            .filter_map(|argument| match argument {
                Argument::Tensor { name, .. } if !self.fixed.contains(name) => Some(name),
                _ => None,
            })
            .collect();
        let mut sets: Vec<CaseSet> = tensors
            .iter()
            .map(|tensor| CaseSet {
                offsets: BTreeMap::from([((*tensor).clone(), self.step)]),
                ..self.set(&format!("{tensor} unaligned"), BTreeMap::new())
            })
            .collect();
        let all = tensors.iter().map(|tensor| ((*tensor).clone(), 2 * self.step));
        sets.push(CaseSet { offsets: all.collect(), ..self.set("all two elements off", BTreeMap::new()) });
        sets
    }
}

/// A name that is a stride of a tensor, and its default.
struct Stride<'a> {
    name: &'a str,
    default: &'a Formula,
}

impl Stride<'_> {
    fn grown(&self, by: u64) -> Values {
        self.changed(&format!("+ {by}"))
    }

    /// Its default with something added: `+ 8`.
    fn changed(&self, by: &str) -> Values {
        let text = format!("({}) {by}", self.default.text);
        Formula::parse(&text).map_or_else(|_| Values::Formula(self.default.clone()), Values::Formula)
    }
}

/// A size or stride with which an address overflows 64 bits, and that a double holds.
const LARGE: f64 = 6_917_529_027_641_081_856.0;

/// The same with the first value of each list alone.
fn first_of(mut set: CaseSet) -> CaseSet {
    for values in set.values.values_mut() {
        if let Values::List(list) = values {
            list.truncate(1);
        }
    }
    set
}

/// Multiples of 8 up to a size: around powers of two, and between them.
fn whole_accesses(last: i64) -> Vec<f64> {
    let mut sizes = BTreeSet::new();
    let mut power = 8_i64;
    while power <= last {
        sizes.extend([power, power + 8, power - 8, power + power / 16 * 8]);
        power *= 2;
    }
    #[allow(clippy::cast_precision_loss, reason = "the reader keeps ranges below 2^53")]
    let whole = sizes.into_iter().filter(|size| (1..=last).contains(size)).map(|size| size as f64);
    whole.collect()
}

/// The strides that cases may set and that have a default, each once.
fn strides<'a>(operation: &'a Operation, fixed: &[String]) -> Vec<Stride<'a>> {
    let mut seen = BTreeSet::new();
    let formulas = operation.arguments.iter().filter_map(|argument| match argument {
        Argument::Tensor { name, strides, .. } if !fixed.contains(name) => strides.as_ref(),
        _ => None,
    });
    formulas
        .flatten()
        .filter_map(Formula::as_name)
        .filter(|name| operation.computed(name).is_none() && !fixed.iter().any(|one| one == name))
        .filter_map(|name| {
            let default = operation.defaults.get(name)?;
            seen.insert(name).then_some(Stride { name, default })
        })
        .collect()
}
