-- :start and :end are the days of the run, half-open; the driver binds them.
select dt, customer, count(*) as orders, sum(amount) as amount
from orders
where dt >= :start and dt < :end
group by dt, customer
