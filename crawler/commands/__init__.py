"""Commands of the project, as `scrapy <command>`; Scrapy loads this package first.

    crawl     Scrapy's own, with errors in one line and exit codes that say how it ended
    fleet     several crawl processes on one machine, kept alive and shown as one
    frontier  inspect and control a crawl: status, hosts, URLs, dead letters, pause, delete
    pages     stored pages: get, find, export, stats, repair
    topic     train topics of focused crawls, and explain their scores
    admin     the admin API and the dashboard alone
    doctor    check servers, limits and settings before a crawl
    startcrawl  make a small project of one's own, with the add-on
    check, fetch, parse, shell, view   Scrapy's own, without the frontier and its servers

A module is a command, with its verbs and their arguments. Modules with an underscore are shared:
`_verbs` (commands with verbs, their tables, fields and JSON, errors in one line), `_settings`
(settings of a command, also with the add-on), `_validate` (checks of all settings).
`frontier` asks a crawl through admin/queries.py, as the admin API does. Exit codes are in
crawler/errors.py. Signals are watched from here on, before anything else is loaded
(util/interrupts.py).
Public: the package's path, `COMMANDS_MODULE = "crawler.commands"`.
"""

from crawler.util import interrupts

interrupts.watch()
