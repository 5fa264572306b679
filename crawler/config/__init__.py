"""One reader of configuration: every package gets its settings, checked, from here.

    values      one checked value, or a dataclass filled from settings; the rules of all settings
    components  keeps our components beside those that a spider or a project names

Defaults live in crawler/settings.py only. A package declares the settings it needs as fields of a
frozen dataclass (`path_depth: int = config.setting("TRAP_PATH_DEPTH")`), which a `from_crawler` or
`from_settings` fills. An error names the setting, its value and the rule
(errors.ConfigurationError). Commands check every setting before they start
(commands/_validate.py); arguments of the spider are read in spiders/web.py.

Owns no keys. Entry points: `config.value(settings, "LEASE_TTL")`,
`config.fill(TrapRules, settings)`, `config.setting("LEASE_TTL")`, `components.keep`.
Public: nothing.
"""

from crawler.config.values import NAMES, crawl_name, fill, setting, url_rules, value

__all__ = ["NAMES", "crawl_name", "fill", "setting", "url_rules", "value"]
