# Asks the model that the input names. It knows nothing of loading, swapping or waiting.
replies = []
for text in inputs["texts"]:
    ask = small.ask if inputs["model"] == "small" else large.ask
    replies.append(ask(text=text)["reply"])
result = replies
