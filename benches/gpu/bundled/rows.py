"""The rows, most important first."""

from peers.library import Skip
from peers.operations import of_case
from peers.operations.adapter import is_variant


class Row:
    """`unknown`: why its outputs cannot be checked."""

    def __init__(self, case):
        self.case, self.adapter, self.unknown = case, None, None
        try:
            self.adapter = of_case(case)
        except Skip as error:
            self.unknown = str(error)

    @property
    def shape(self):
        return {name: int(value) if value == int(value) else value for name, value in self.case.values.items()}

    def __str__(self):
        return str(self.case)


def all_rows(projects):
    """Every bench case, most important first, for runs that are cut short: the largest and the smallest bf16 case of each
    operation, the rest of bf16, launchers that differ from another only in where they write, and the other types."""
    ranked = []
    for project in projects:
        for operation in project.operations:
            rows = [Row(case) for case in operation.cases("bench")]
            sizes = [row.case.bytes for row in rows if row.case.dtype == "bf16"]
            for place, row in enumerate(rows):
                rank = 3 if row.case.dtype != "bf16" else 2 if is_variant(row.case) else 0 if row.case.bytes in (min(sizes), max(sizes)) else 1
                ranked.append((rank, place, len(ranked), row))
    return [row for *_, row in sorted(ranked, key=lambda entry: entry[:3])]
