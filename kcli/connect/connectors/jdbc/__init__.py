"""Tables of a database: rows to topics, and records to rows. Both class names of each connector are known, those of
Aiven's and of Confluent's plug-in, which have the same options.

    options   the options of both connectors
    dialect   the SQL of a database and its types; database: its connection. sqlite and postgres have both, by
              connection.url: jdbc:sqlite:PATH, jdbc:postgresql://HOST:PORT/DATABASE
    columns   rows as structs of Connect
    sink      JdbcSinkConnector: insert, upsert, update, delete; tables are created, and get columns
    source    JdbcSourceConnector: bulk, incrementing, timestamp, timestamp+incrementing
"""
