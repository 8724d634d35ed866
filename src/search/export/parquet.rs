//! A table as one Parquet file: optional columns of texts, numbers, truth values, and lists, plain and uncompressed, one row
//! group. What readers of Parquet need of the format, and no more: <https://parquet.apache.org/docs/file-format/>.

use super::Cell;

const MAGIC: &[u8] = b"PAR1";
/// The most bytes of a page, unless one value has more, and the most rows.
const PAGE: usize = 8 << 20;
const ROWS: usize = 4096;

/// Types of values, as the format numbers them.
const BOOLEAN: i32 = 0;
const INT64: i32 = 2;
const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;
/// Columns that have one value, may be empty, or have several; the converted types of a text and a list; encodings.
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;
const UTF8: i32 = 0;
const LIST: i32 = 3;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
/// Types of values in Thrift's compact protocol.
const INT: u8 = 5;
const LONG: u8 = 6;
const TEXT: u8 = 8;
const RECORD: u8 = 12;

/// Where a column lies in the file.
struct Chunk {
    offset: i64,
    bytes: i64,
    values: i64,
}

/// The file. Every row has these columns, in their order.
pub(super) fn file(names: &[&str], rows: &[Vec<Cell>]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    let mut chunks = Vec::new();
    for at in 0..names.len() {
        let column: Vec<&Cell> = rows.iter().filter_map(|row| row.get(at)).collect();
        let offset = file.len();
        let mut count = 0;
        for page in pages(&column) {
            let values = page.iter().map(|cell| cell.values()).sum::<usize>();
            let body = body(page);
            file.extend(header(values, body.len()));
            file.extend(body);
            count += values;
        }
        chunks.push(Chunk { offset: whole(offset), bytes: whole(file.len() - offset), values: whole(count) });
    }
    let first = rows.first().map(Vec::as_slice).unwrap_or_default();
    let footer = footer(names, first, &chunks, whole(rows.len()));
    file.extend(&footer);
    file.extend(u32::try_from(footer.len()).unwrap_or(u32::MAX).to_le_bytes());
    file.extend(MAGIC);
    file
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn small(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The values of a column in parts of a bounded size.
fn pages<'a, 'b>(column: &'b [&'a Cell]) -> Vec<&'b [&'a Cell]> {
    let mut pages = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, cell) in column.iter().enumerate() {
        let more = match cell {
            Cell::Text(Some(text)) => text.len(),
            Cell::List(all) => all.iter().map(|text| text.len() + 4).sum(),
            _ => 8,
        };
        if at > start && (bytes + more > PAGE || at - start >= ROWS) {
            pages.push(&column[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += more;
    }
    pages.push(&column[start..]);
    pages
}

/// A page without its header: for lists, which values go on with one; which values are there; and those that are.
fn body(page: &[&Cell]) -> Vec<u8> {
    let mut body = Vec::new();
    if page.iter().any(|cell| matches!(cell, Cell::List(_))) {
        let goes_on = page.iter().flat_map(|cell| (0..cell.values()).map(|at| at > 0));
        levels(&mut body, &goes_on.collect::<Vec<_>>());
    }
    let there = page.iter().flat_map(|cell| std::iter::repeat_n(cell.is_there(), cell.values()));
    levels(&mut body, &there.collect::<Vec<_>>());
    let mut flags = Vec::new();
    for cell in page {
        match cell {
            Cell::Text(Some(text)) => texts(&mut body, std::slice::from_ref(text)),
            Cell::List(all) => texts(&mut body, all),
            Cell::Number(Some(number)) => body.extend(number.to_le_bytes()),
            Cell::Whole(Some(number)) => body.extend(number.to_le_bytes()),
            Cell::Flag(Some(flag)) => flags.push(*flag),
            Cell::Text(None) | Cell::Number(None) | Cell::Whole(None) | Cell::Flag(None) => {}
        }
    }
    body.extend(bits(&flags));
    body
}

/// Levels of 0 and 1 as one run of bits: its count of groups of eight, and 1 for `bit-packed`.
fn levels(body: &mut Vec<u8>, flags: &[bool]) {
    let mut run = Vec::new();
    varint(&mut run, (flags.len().div_ceil(8) as u64) << 1 | 1);
    run.extend(bits(flags));
    body.extend(u32::try_from(run.len()).unwrap_or(u32::MAX).to_le_bytes());
    body.extend(run);
}

fn texts(body: &mut Vec<u8>, all: &[String]) {
    for text in all {
        body.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        body.extend(text.as_bytes());
    }
}

/// Eight to a byte, the first one lowest.
fn bits(flags: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| eight.iter().enumerate().fold(0, |byte, (at, flag)| byte | u8::from(*flag) << at);
    flags.chunks(8).map(byte).collect()
}

fn header(values: usize, bytes: usize) -> Vec<u8> {
    let mut all = Thrift::default();
    all.number(1, 0).number(2, small(bytes)).number(3, small(bytes));
    let mut data = Thrift::default();
    data.number(1, small(values)).number(2, PLAIN).number(3, RLE).number(4, RLE);
    all.record(5, data);
    all.end()
}

fn footer(names: &[&str], first: &[Cell], chunks: &[Chunk], rows: i64) -> Vec<u8> {
    let mut root = Thrift::default();
    root.text(4, "schema").number(5, small(names.len()));
    let mut schema = vec![root];
    let mut columns = Vec::new();
    for ((name, cell), chunk) in names.iter().zip(first).zip(chunks) {
        let kind = cell.kind();
        let mut element = Thrift::default();
        let path = if matches!(cell, Cell::List(_)) {
            let (mut logical, mut group, mut list) = (Thrift::default(), Thrift::default(), Thrift::default());
            logical.record(3, Thrift::default());
            group.number(3, REQUIRED).text(4, name).number(5, 1).number(6, LIST).record(10, logical);
            list.number(3, REPEATED).text(4, "list").number(5, 1);
            schema.extend([group, list]);
            element.number(1, kind).number(3, REQUIRED).text(4, "element");
            vec![*name, "list", "element"]
        } else {
            element.number(1, kind).number(3, OPTIONAL).text(4, name);
            vec![*name]
        };
        if kind == BYTE_ARRAY {
            let mut logical = Thrift::default();
            logical.record(1, Thrift::default());
            element.number(6, UTF8).record(10, logical);
        }
        schema.push(element);
        let mut meta = Thrift::default();
        meta.number(1, kind).list(2, INT, [PLAIN, RLE].into_iter().map(|one| zigzag(one.into())));
        meta.list(3, TEXT, path.into_iter().map(counted)).number(4, 0).long(5, chunk.values);
        meta.long(6, chunk.bytes).long(7, chunk.bytes).long(9, chunk.offset);
        let mut column = Thrift::default();
        column.long(2, chunk.offset).record(3, meta);
        columns.push(column);
    }
    let mut group = Thrift::default();
    group.list(1, RECORD, columns.into_iter().map(Thrift::end));
    group.long(2, chunks.iter().map(|chunk| chunk.bytes).sum()).long(3, rows);
    let mut file = Thrift::default();
    file.number(1, 1).list(2, RECORD, schema.into_iter().map(Thrift::end)).long(3, rows);
    file.list(4, RECORD, std::iter::once(group.end())).text(6, concat!("kernels version ", env!("CARGO_PKG_VERSION")));
    file.end()
}

impl Cell {
    fn kind(&self) -> i32 {
        match self {
            Self::Text(_) | Self::List(_) => BYTE_ARRAY,
            Self::Number(_) => DOUBLE,
            Self::Whole(_) => INT64,
            Self::Flag(_) => BOOLEAN,
        }
    }

    fn is_there(&self) -> bool {
        match self {
            Self::Text(cell) => cell.is_some(),
            Self::Number(cell) => cell.is_some(),
            Self::Whole(cell) => cell.is_some(),
            Self::Flag(cell) => cell.is_some(),
            Self::List(all) => !all.is_empty(),
        }
    }

    /// How many levels it has: an empty list has one, which says so.
    fn values(&self) -> usize {
        if let Self::List(all) = self { all.len().max(1) } else { 1 }
    }
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push((number & 0x7f) as u8);
}

fn zigzag(number: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, (number << 1 ^ number >> 63).cast_unsigned());
    bytes
}

/// A text behind its length.
fn counted(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
    bytes
}

/// A record in Thrift's compact protocol. Fields are written in the order of their numbers.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

impl Thrift {
    /// A field: how far its number is from the last one's, its type, and its value.
    fn field(&mut self, id: u8, kind: u8, value: Vec<u8>) -> &mut Self {
        self.bytes.push((id - self.last) << 4 | kind);
        self.bytes.extend(value);
        self.last = id;
        self
    }

    fn number(&mut self, id: u8, number: i32) -> &mut Self {
        self.field(id, INT, zigzag(number.into()))
    }

    fn long(&mut self, id: u8, number: i64) -> &mut Self {
        self.field(id, LONG, zigzag(number))
    }

    fn text(&mut self, id: u8, text: &str) -> &mut Self {
        self.field(id, TEXT, counted(text))
    }

    fn record(&mut self, id: u8, record: Self) -> &mut Self {
        self.field(id, RECORD, record.end())
    }

    /// A list of values of one type; a count of 15 and more stands behind its head.
    fn list(&mut self, id: u8, kind: u8, values: impl ExactSizeIterator<Item = Vec<u8>>) -> &mut Self {
        let short = u8::try_from(values.len()).unwrap_or(15).min(15);
        let mut bytes = vec![short << 4 | kind];
        if short == 15 {
            varint(&mut bytes, values.len() as u64);
        }
        bytes.extend(values.flatten());
        self.field(id, 9, bytes)
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}
