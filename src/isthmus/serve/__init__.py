"""``isthmus serve``: collections over HTTP.

    app = create_app(ServeSettings(paths=(Path("things.isthmus"),)))      an ASGI application
    run(settings)                                                         the same under uvicorn, until Ctrl-C

It is thin: a route reads JSON, calls one function of a collection, and writes the JSON of
``isthmus.search.json_forms``. docs/serve.md has every route with its JSON; docs/security.md every threat with its test.
"""
