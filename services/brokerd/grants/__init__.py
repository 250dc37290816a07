"""Tool grants: what the owner allows, one TOML file each, and the two that are built in (M5a section 8)."""
