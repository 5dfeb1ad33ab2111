// Factor of a query's scores: the scale, and the growth of queries with their position (ops::QueryGrowth). Needs the push constants of attend.
float query_scale(uint position) { return p.scale * (1 + p.growth * log(1 + float(position / p.growth_step))); }
