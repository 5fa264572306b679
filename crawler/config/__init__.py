"""Settings and arguments, read and checked before anything starts.

    read              settings → objects for each part: limits, tuning, policies, URL rules
    validate          all values of settings at once, so that a mistake is one line at the start
    spider_arguments  `-a name=value` of the spider `web`
    components        keeps our components beside those that a spider or a project names

Defaults live in crawler/settings.py only; here is what a value may be. An error names the setting,
its value and the rule (errors.ConfigurationError). Packages below get plain values or frozen
objects, and read no settings themselves, except in a `from_crawler`.

Owns no keys. Entry points: `read.*(settings)`, `validate.check(settings)`,
`spider_arguments.read(…)`, `components.keep(settings)`.
"""
