"""The active controller, and the requests of nodes to it.

active                  the active controller: sessions of brokers, periodic elections
channel                 the channel to the active controller, also for requests of clients that only the active
                        controller handles
lifecycle               a broker's registration, heartbeats and controlled shutdown
requests, registration  a node's requests about itself; the registration of a controller
topic_creation, config_admin    a broker's part of creating topics and of changing configurations
"""
