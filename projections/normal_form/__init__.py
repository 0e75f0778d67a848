"""Normal form: an export's spans become traces of steps, and whatever can't is said with its reason and place."""

from projections.normal_form.export import Export, read_export

__all__ = ["Export", "read_export"]
