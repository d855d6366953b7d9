"""A program for `kcli streams run`: how often each page is visited, and each visit with the country of its user."""

from kcli.streams import STRING, StreamsBuilder

builder = StreamsBuilder(key_serde=STRING, value_serde=STRING)
users = builder.table("users")  # user -> country
visits = builder.stream("visits")  # user -> page
visits.join(users, lambda page, country: f"{page} from {country}").to("visits-by-country")
pages = visits.group_by(lambda _, page: page).count(store_name="pages")
pages.to_stream().map_values(str).to("pages")
topology = builder.build()
