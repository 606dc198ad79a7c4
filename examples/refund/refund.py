# /// script
# [tool.stasis]
# title = "Refund what arrived broken"
# tools = ["payments.order", "payments.refund", "mail.send"]
# input = { type = "object", required = ["id"], properties = { id = { type = "string" }, damaged = { type = "array", items = { type = "string" } } } }
# ///
"""Refunds the damaged lines of an order and tells the customer.

An agent wrote this to answer one complaint. `payments` and `mail` are tools of the plan: each call leaves the
sandbox through the broker, which may stop it to ask a person, for a second or for three weeks.
"""

order = payments.order(order_id=inputs["id"])

damaged = inputs.get("damaged")
lines = [line for line in order["lines"] if damaged is None or line["sku"] in damaged]
owed = sum(line["price"] * line["quantity"] for line in lines)
amount = round(min(owed, order["paid"] - order["refunded"]), 2)
print(f"order {order['id']}: {len(lines)} damaged lines, {amount} to refund")

if amount <= 0:
    result = {"refunded": 0}
else:
    try:
        refund = payments.refund(order_id=order["id"], amount=amount)
    except (stasis.Rejected, stasis.Expired) as refusal:
        mail.send(to=order["customer"], body=f"We cannot refund order {order['id']} yet; we will write to you.")
        print(f"no refund: {refusal}")
        result = {"refunded": 0}
    else:
        # The approver may have changed the amount: what was paid is what the server says.
        mail.send(to=order["customer"], body=f"We refunded {refund['amount']:.2f} for order {order['id']}.")
        result = {"refunded": refund["amount"]}
