"""The HTML report of a run: one file that opens offline. Pure: values in, text out.

ReportInput ─► timeline, ranks: rows for the page
            └► page: the template, which escapes everything
"""
