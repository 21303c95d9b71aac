"""What every part of the platform file is made of: strict values, and no field that is not known."""

from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict

from steelyard.api.model import camel_case


class SettingsModel(BaseModel):
    model_config = ConfigDict(
        alias_generator=camel_case,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        defer_build=True,
        strict=True,
    )

    @classmethod
    def known(cls, **values: Any) -> Self:
        """With values that stand in our own sources, and defaults for the rest. Tests check those; here they are taken
        as they are, since what checks is large, and a platform without a file has nothing else to check.
        """
        return cls.model_construct(**values)

    def written(self) -> dict[str, Any]:
        """As the platform file has it, every field of it."""
        return {field.alias or name: _written(getattr(self, name)) for name, field in type(self).model_fields.items()}


def _written(value: Any) -> Any:
    if isinstance(value, SettingsModel):
        return value.written()
    if isinstance(value, dict):
        return {key: _written(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_written(each) for each in cast("list[Any]", value)]
    return value
