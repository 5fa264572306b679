"""The commands of the project, as `scrapy <command>`; Scrapy loads this package first.

    crawl     Scrapy's own, with mistakes in one line and exit codes that say how it went
    fleet     several crawl processes on one machine, kept alive and shown as one
    frontier  look at a crawl and control it: status, hosts, urls, dead letters, pause
    pages     look at stored pages: get, find, export, stats, repair
    admin     the admin API and the dashboard alone
    doctor    check servers, limits and settings before a crawl
    check, fetch, parse, shell, view   Scrapy's own, without the frontier and its servers

A module is a command; its parts are in modules and packages that begin with an underscore, because
Scrapy takes every other module for a command. Exit codes are in crawler/errors.py. Signals are
watched from here on, before anything else is loaded (util/interrupts.py).
Public: the module's path, `COMMANDS_MODULE = "crawler.commands"`.
"""

from crawler.util import interrupts

interrupts.watch()
