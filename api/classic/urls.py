"""Addresses of the classic dashboard."""

from django.urls import path

from api.classic import change, lag, message

urlpatterns = [
    path("topic/list.query", lag.TopicList.as_view(), name="api-classic-topics"),
    path("topic/stats.query", lag.TopicStats.as_view(), name="api-classic-topic-stats"),
    path(
        "topic/queryConsumerByTopic.query", lag.TopicConsumers.as_view(), name="api-classic-topic-consumers"
    ),
    path("consumer/groupList.query", lag.GroupList.as_view(), name="api-classic-groups"),
    path("consumer/group.query", lag.Group.as_view(), name="api-classic-group"),
    path("consumer/queryTopicByConsumer.query", lag.GroupTopics.as_view(), name="api-classic-group-topics"),
    path("consumer/resetOffset.do", change.Reset.as_view(), name="api-classic-reset"),
    path("consumer/skipAccumulate.do", change.Reset.as_view(), name="api-classic-skip"),
    path("topic/createOrUpdate.do", change.TopicCreateOrUpdate.as_view(), name="api-classic-topic-change"),
    path("topic/sendTopicMessage.do", change.Send.as_view(), name="api-classic-send"),
    path("message/queryMessageByTopicAndKey.query", message.ByKey.as_view(), name="api-classic-by-key"),
    path("message/viewMessage.query", message.ById.as_view(), name="api-classic-by-id"),
    path("message/queryMessageByTopic.query", message.ByTime.as_view(), name="api-classic-by-time"),
]
